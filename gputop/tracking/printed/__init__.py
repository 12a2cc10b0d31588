"""Metrics read from what a training prints: lines, tables, and how fast it says that it goes. Pure."""
