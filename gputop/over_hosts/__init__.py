"""Jobs on several hosts, each under its own gputop there: started as one run, listed, read and stopped. Prints nothing."""
