"""Losses and gradients that are no longer finite, by what lines print."""
