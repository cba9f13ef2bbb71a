"""Routes to the answers that do not call the functions being checked: dense algebra, the cone, chains."""
