"""Reads the Python stack of another process from its memory. Nothing is stopped, traced or written."""
