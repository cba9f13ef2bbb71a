"""Independent referees: what judges a number of lbnn shares no code with what computes it."""
