"""Typed filters: one grammar of terms, and what they keep of runs and of processes. Pure text and records."""
