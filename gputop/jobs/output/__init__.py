"""Job output: follows and searches it, scans it for known errors, and parses its metrics."""
