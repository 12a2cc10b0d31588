"""The GPUs drawn: the verdict on them, their rows, and those that a finding is about."""
