"""Explain the output of failed runs."""
