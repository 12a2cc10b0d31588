"""Rules on runs that stand still, and on ranks that are missing."""
