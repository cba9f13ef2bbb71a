"""What every folder uses: array types, checks, warnings, blocks, files, progress, HTML, colours.

Imports nothing of the project.
"""
