"""Explains the output of failed runs."""
