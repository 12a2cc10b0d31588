"""What ranks report about themselves, read without trusting it."""
