"""Follows the journals of all runs. A training process never imports this package, but to say its last line on a terminal."""
