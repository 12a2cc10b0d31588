"""The open half of the second set of strangers: its author had not read the rules when it was written.

Rules may be written against it. What they were before is measured once, at the commit that adds a case.
"""
