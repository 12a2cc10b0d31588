"""Where readings come from: one module per source, all of the shape of base.py."""
