"""What jobs print: searched, scanned for known errors, and read for metrics."""
