"""Finds the modules that are trained, and times their calls."""
