"""Commands that ask a live run something that costs it time."""
