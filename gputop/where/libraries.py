"""Distinguishes a library's file from the user's only by its path: the process may use another Python than this one."""

from __future__ import annotations

import re

_LIBRARY = re.compile(r"^<|/(site|dist)-packages/|/lib(64)?/python3(\.\d+)?/|/gputop/tracking/")


def is_library(path: str) -> bool:
    """Return whether a file belongs to Python, to an installed package, or to gputop, also where that runs from a checkout."""
    return _LIBRARY.search(path) is not None
