"""Rules on the GPUs and their memory."""
