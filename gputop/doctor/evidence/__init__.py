"""The evidence that rules judge by: snapshots, grouped and kept over time."""
