"""Rules on what a run learns: its loss and its learning rate."""
