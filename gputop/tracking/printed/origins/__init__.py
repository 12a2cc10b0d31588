"""Where a line comes from: its prefix, its rank and its host; and whether it only repeats another one."""
