"""The GPUs in lines: the verdict on them, their rows, and those that a finding is about."""
