"""Other machines: which ones, how to reach them, and what they send, which nothing here trusts."""
