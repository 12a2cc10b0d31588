"""When a screen of a test is at rest.

Textual's ``Pilot`` takes a process without CPU time for an idle one, and looks every 20 ms. On a busy machine it returns while
the first layout, or what follows from it, is still to come: a test then judges, or types into, a screen that no person would
have seen. On an idle machine it waits for nothing: twice for each key.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Set as AbstractSet
from typing import Any

from textual._wait import wait_for_idle
from textual.pilot import Pilot

ROUNDS = 100
"""A screen that something moves without end, such as a blinking cursor, is judged as it is after this many pauses."""
SOON_S = 0.02
"""What a timer does within this time is waited for, as Textual waits at least this long."""

_pause = Pilot.pause


def is_at_rest(pilot: Pilot[Any]) -> bool:
    """Return whether the screen has nothing left to lay out, draw or answer."""
    app = pilot.app
    screen = app.screen
    loop: Any = asyncio.get_running_loop()
    if loop._ready:  # a message that was taken from its queue, for which a starved process had no time yet
        return False
    due = (
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._recompose_required
        or bool(screen._dirty_widgets)
        or bool(screen._callbacks)
        or app._resize_event is not None  # a timer passes a new size on to the screen
    )
    return not due and all(pump._message_queue.empty() for pump in (app, *screen.walk_children(with_self=True)))


async def pause_until_rest(pilot: Pilot[Any], delay: float | None = None) -> None:
    """Pause as Textual does, and go on until the screen is at rest."""
    await _pause(pilot, delay)
    for _ in range(ROUNDS):
        if pilot.app._exception is not None or not pilot.app.is_running or is_at_rest(pilot):
            return
        await _pause(pilot)


def _resting(pool: Any) -> AbstractSet[threading.Thread]:
    """Return the threads of a pool, unless one of them works."""
    works = pool is None or pool._idle_semaphore._value < len(pool._threads)
    return set() if works else pool._threads


class Idle:
    """Waits until the event loop has nothing to do; ``threads`` are those that have nothing to do with the app."""

    def __init__(self, threads: AbstractSet[threading.Thread]) -> None:
        self._threads = threads

    async def __call__(self, min_sleep: float = SOON_S, max_sleep: float = 1.0) -> None:
        """Replace Textual's ``wait_for_idle``, unless threads work for the app: the event loop sees nothing of them."""
        loop: Any = asyncio.get_running_loop()
        if not (self._threads | _resting(loop._default_executor)).issuperset(threading.enumerate()):
            await wait_for_idle(min_sleep, max_sleep)
            return
        started = loop.time()
        while loop.time() < started + max_sleep:
            await asyncio.sleep(0)
            if loop._ready:
                continue
            next_s = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=started + max_sleep)
            if next_s > started + SOON_S:
                return
            await asyncio.sleep(max(0.0, next_s - loop.time()))
