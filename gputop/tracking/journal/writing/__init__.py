"""Writes a journal: its files, the ring and the archive, and the conversion of logged values."""
