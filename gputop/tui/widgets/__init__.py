"""One widget per module, drawn line by line."""
