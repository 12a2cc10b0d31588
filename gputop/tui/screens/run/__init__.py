"""The screen of one run: its chart, its keys, its ranks."""
