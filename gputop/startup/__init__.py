"""Makes gputop's own processes start fast and stay small: what they import, and what the collector scans.

Never used in a training.
"""
