"""The training side: what a training script calls, and the run that it writes.

Imports the standard library and gputop's own plain modules alone; torch is touched only through objects that the
user's code handed over, or when ``sys.modules`` already holds it.
"""
