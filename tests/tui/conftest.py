"""What every test of the screen gets: pauses that last until the screen is at rest, on a busy machine and on an idle one."""

from __future__ import annotations

import threading

import pytest
from textual.pilot import Pilot

from tests.tui.rest import Idle, pause_until_rest


@pytest.fixture(autouse=True)
def restful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Textual's pauses, which a busy machine ends too early."""
    monkeypatch.setattr(Pilot, "pause", pause_until_rest)
    idle = Idle(frozenset(threading.enumerate()))
    for user in ("textual.app", "textual.pilot"):  # for each key, and in each pause
        monkeypatch.setattr(f"{user}.wait_for_idle", idle)
