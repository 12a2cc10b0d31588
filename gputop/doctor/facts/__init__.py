"""The facts that ranks report about themselves, read without trusting them."""
