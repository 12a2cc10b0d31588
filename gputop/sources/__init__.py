"""Where readings come from: one module per source, each implementing the protocol in base.py."""
