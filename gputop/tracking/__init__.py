"""The training side: what a training script calls, and the run that it writes.

Imports only the standard library and gputop's own plain modules. It never imports torch: it uses objects that the user's
code passed in, or torch itself when ``sys.modules`` already holds it.
"""
