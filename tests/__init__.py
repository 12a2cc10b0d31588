"""Tests; what needs a GPU is in tests/gpu."""
