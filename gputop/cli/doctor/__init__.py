"""``gputop doctor``: watches this machine, reads a recording, explains logs or rules, or checks the machine before a run."""
