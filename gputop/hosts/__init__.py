"""Other machines: which ones, how to reach them, and what they send, without trusting it."""
