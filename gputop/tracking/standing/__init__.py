"""Where this rank is now: its line, its phase and its collectives, kept in the ring's first page for whoever asks."""
