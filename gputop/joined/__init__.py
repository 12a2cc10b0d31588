"""Runs over several machines: their ranks joined by run id, with host, GPU and times by one clock. Pure."""
