"""Finds the loss of each step: which lines run backward, on what, and what loss the losses of a step amount to."""
