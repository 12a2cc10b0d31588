"""``gputop launch``: what the command line asks to start, and how it starts as a job on this machine."""
