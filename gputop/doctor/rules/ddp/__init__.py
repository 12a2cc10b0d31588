"""Rules on DistributedDataParallel."""
