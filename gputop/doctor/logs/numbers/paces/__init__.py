"""Runs that become slower, by the rates that lines print, and by when they were written."""
