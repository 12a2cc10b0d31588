"""Reads the state of NCCL's communicators from its RAS service."""
