"""What a log only quotes: the report of a test suite, and texts that a model has written."""
