"""Automatic tracking: what torch does in a training process, recorded without a change to the script."""
