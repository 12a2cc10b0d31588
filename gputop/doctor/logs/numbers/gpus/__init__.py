"""What the lines of a log say of its GPUs: who is on which, how much they do, and what they hold."""
