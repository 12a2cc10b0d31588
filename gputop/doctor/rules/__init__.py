"""One module per family of causes."""
