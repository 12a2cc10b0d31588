"""When a screen of a test is at rest.

Textual's ``Pilot.pause`` takes a process without CPU time for an idle one: on a busy machine it returns while the first layout,
or what follows from it, is still to come. A test then judges, or types into, a screen that no person would have seen.
"""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

ROUNDS = 100
"""A screen that something moves without end, such as a blinking cursor, is judged as it is after so many pauses."""

_pause = Pilot.pause


def is_at_rest(pilot: Pilot[Any]) -> bool:
    """Return whether the screen has nothing left to lay out, draw or answer."""
    app = pilot.app
    screen = app.screen
    due = (
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._recompose_required
        or bool(screen._dirty_widgets)
        or bool(screen._callbacks)
    )
    return not due and all(pump._message_queue.empty() for pump in (app, *screen.walk_children(with_self=True)))


async def pause_until_rest(pilot: Pilot[Any], delay: float | None = None) -> None:
    """Pause as Textual does, and go on until the screen is at rest."""
    await _pause(pilot, delay)
    for _ in range(ROUNDS):
        if pilot.app._exception is not None or not pilot.app.is_running or is_at_rest(pilot):
            return
        await _pause(pilot)
