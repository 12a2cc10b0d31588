"""Launched jobs: started, listed, stopped, supervised, and attached to a terminal."""
