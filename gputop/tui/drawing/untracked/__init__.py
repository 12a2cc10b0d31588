"""Runs that gputop does not track, drawn."""
