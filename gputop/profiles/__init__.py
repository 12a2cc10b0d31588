"""Asks a rank for a profile of a few steps, and reads what it recorded. The training only records."""
