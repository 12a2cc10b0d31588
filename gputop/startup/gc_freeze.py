"""Keeps the garbage collector from scanning objects that live as long as the program, and from running after every few
objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 20_000
"""After this many new objects, the collector looks for cycles. A snapshot creates thousands, and nearly all are freed before
the next one without its help: with Python's 700, the collector takes up to a tenth of the screen's time."""


@contextmanager
def long_lived(*, many: bool = False) -> Iterator[None]:
    """Freeze the objects created in this block (``gc.freeze``): they never become garbage, so the collector should not scan
    them.

    With ``many``, collect garbage first: imports leave replaced classes, and what comes next fits in their place.
    """
    gc.disable()
    try:
        yield
        if many:
            gc.collect()
        gc.freeze()
    finally:
        gc.enable()


def collect_rarely() -> None:
    """Let the collector look for cycles only once per ``NEW_OBJECTS`` new objects. Never call this where a user's code runs."""
    gc.set_threshold(NEW_OBJECTS)
