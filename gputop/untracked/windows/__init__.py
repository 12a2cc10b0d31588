"""Windows of the user's own tmux and GNU screen: which one a run prints to, and what it shows."""
