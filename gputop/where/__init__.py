"""Asks every rank of a run where it is, and looks at those that do not answer from outside."""
