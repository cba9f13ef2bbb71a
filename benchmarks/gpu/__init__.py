"""lbnn on a GPU."""
