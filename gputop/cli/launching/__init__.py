"""``gputop launch``: what the command line asks for, and how it starts as a job on this machine."""
