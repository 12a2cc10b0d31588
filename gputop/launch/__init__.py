"""Starts training as jobs that outlive gputop."""
