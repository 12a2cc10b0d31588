"""Rules on nn.DataParallel."""
