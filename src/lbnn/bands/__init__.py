"""x Knows."""
