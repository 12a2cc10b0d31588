"""Tests, in the folders of the packages that they test. What needs a GPU is in tests/gpu."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
