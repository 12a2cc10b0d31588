"""Commands that look at several machines together."""
