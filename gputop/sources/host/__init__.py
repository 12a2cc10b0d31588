"""The machine and its processes, read from the operating system."""
