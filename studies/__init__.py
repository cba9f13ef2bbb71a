"""The studies that the documentation quotes, and its pictures."""
