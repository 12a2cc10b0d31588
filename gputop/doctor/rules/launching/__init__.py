"""Rules on launching: how many ranks there are, on which devices, and what they may see."""
