"""Readings of a training besides its losses: loaders and batches, DDP, the GPU, switches, and waits for a device."""
