"""The screen of a profile: what it costs, and what it found."""
