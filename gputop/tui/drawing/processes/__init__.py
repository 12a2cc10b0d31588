"""The process table: its rows, flat or as a tree, the text of their commands, and the pane's lines; and one process in full."""
