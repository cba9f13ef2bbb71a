"""What every room stands on: array types, checks, warnings, blocks, files, progress, HTML, colours.

Knows nothing of the project.
"""
