"""The state of the training in this process, the measurements of its current iteration, and where they are written."""
