"""Follows the journals of all runs. A training process never imports this package."""
