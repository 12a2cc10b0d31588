"""Imports modules that live as long as the program without slowing down the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def long_lived() -> Iterator[None]:
    """Freeze the objects created in this block (``gc.freeze``): they never become garbage, so the collector should not scan
    them.
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
