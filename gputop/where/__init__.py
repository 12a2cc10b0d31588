"""Asks every rank of a run where it is, and inspects those that do not answer from outside."""
