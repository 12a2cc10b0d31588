"""Rules on runs that hang, and on missing ranks."""
