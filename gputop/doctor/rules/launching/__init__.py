"""Rules on launching: how many ranks there are, on which devices, and which devices they see."""
