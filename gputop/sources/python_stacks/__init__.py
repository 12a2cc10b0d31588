"""Reads the Python stack and variables of another process from its memory. Nothing is stopped, traced or written."""
