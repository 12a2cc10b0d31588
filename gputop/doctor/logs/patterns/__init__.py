"""Known error texts, one table per origin."""
