"""NCCL's RAS service."""
