"""Claims of the paper, one file for each section."""
