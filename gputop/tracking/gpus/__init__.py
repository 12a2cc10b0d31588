"""The past of a run's GPUs: read while it trains, and stored next to its journals for later viewers."""
