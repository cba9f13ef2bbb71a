"""Independent referees for lbnn: they import nothing from it and share no code with it."""
