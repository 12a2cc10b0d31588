"""``gputop selftest``: what gputop can read on this machine, what it costs, and whether tracking and the doctor work on it."""
