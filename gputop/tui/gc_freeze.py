"""Imports of modules that last as long as the program."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """Keep what is made in here out of the collector's way, now and later: nothing of it ever becomes garbage."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
