"""Thin callbacks for training frameworks; each imports its framework lazily."""
