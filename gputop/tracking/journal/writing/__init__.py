"""Writes a journal: the files that it opens, the ring, its archive, and what becomes of a logged value."""
