"""What every room stands on: array types, checks of arguments, warnings, blocks, files, progress.

Knows nothing of the project.
"""
