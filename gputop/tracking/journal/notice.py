"""Reports on stderr, one line and once each, what tracking cannot do. Never raises: training comes first."""

from __future__ import annotations

import os
import sys

_told: set[str] = set()


def tell(message: str) -> None:
    """Print ``gputop: message`` once per message and process; ``GPUTOP_SILENT=1`` suppresses it."""
    try:
        if message in _told or len(_told) > 100:
            return
        _told.add(message)
        if os.environ.get("GPUTOP_SILENT", "") not in ("", "0"):
            return
        sys.stderr.write(f"gputop: {message}\n")
    except Exception:  # noqa: BLE001 - stderr may be closed or replaced by anything; the training must not be affected
        return
