"""A profile of a few steps, taken in the training when its user asks for one."""
