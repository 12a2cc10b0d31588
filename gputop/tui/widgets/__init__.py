"""One widget a module, drawn line by line."""
