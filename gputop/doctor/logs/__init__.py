"""Read the output of runs for known texts, exceptions and last words."""
