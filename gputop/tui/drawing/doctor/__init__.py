"""The doctor drawn: its pane, one finding in full, and every rule with its outcome."""
