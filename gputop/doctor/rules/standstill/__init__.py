"""Rules on runs that stand still, and on missing ranks."""
