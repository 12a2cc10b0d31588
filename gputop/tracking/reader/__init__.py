"""Follows the journals of all runs. A training process imports it only at its very end, for its last line."""
