"""Job output: followed, searched, scanned for known errors, and parsed for metrics."""
