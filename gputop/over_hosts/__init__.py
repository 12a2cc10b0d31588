"""Jobs on several hosts: starts them as one run, lists them, reads their output, stops them. Prints nothing."""
