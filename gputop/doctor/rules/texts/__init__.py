"""Rules on known error texts."""
