"""Makes gputop's own processes start fast and stay small: what they import, and what the collector scans.

A training uses only ``bytecode``, and only once an import has failed.
"""
