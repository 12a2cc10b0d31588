"""Metrics read from a training's output: lines, tables, and the pace that it reports. Pure."""
