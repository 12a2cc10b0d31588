"""Launched jobs: starts, lists, stops and supervises them, and runs commands attached to a terminal."""
