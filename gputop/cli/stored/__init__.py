"""Tracked runs of this user, as ``gputop runs`` reads, shows, plots, labels, imports and deletes them."""
