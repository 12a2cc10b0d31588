"""Imports asyncio without OpenSSL: a screen talks only to processes and a terminal, and OpenSSL takes 2 MiB."""

from __future__ import annotations

import sys
from typing import Any


def import_asyncio() -> None:
    """Import asyncio as on a Python that was built without OpenSSL. Whoever imports ``ssl`` later gets it."""
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules  # None says that there is no such module
    modules["ssl"] = None
    try:
        import asyncio  # noqa: F401 - for those who import it next
    finally:
        del modules["ssl"]
