"""Untracked runs, drawn."""
