"""The tests, in the same folders as the packages that they test. Tests that need a GPU are in tests/gpu."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
