"""The past of a run's GPUs: read while it trains, and kept next to its journals for whoever opens the run later."""
