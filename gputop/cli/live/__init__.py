"""Commands whose answer costs a live run some time."""
