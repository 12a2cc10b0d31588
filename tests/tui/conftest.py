"""What every test of the screen gets: pauses that last until the screen is at rest, however busy the machine is."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.tui.rest import pause_until_rest


@pytest.fixture(autouse=True)
def restful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Textual's pause, which a busy machine ends too early."""
    monkeypatch.setattr(Pilot, "pause", pause_until_rest)
