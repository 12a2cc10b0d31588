"""Adds to the place of a rank that cannot be asked the line that its main thread is at, read from its memory."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from gputop.sources.host import procfs
from gputop.sources.python_stacks.reader import StackReader
from gputop.tracking.standing.stack import Frame, where
from gputop.whereabouts.activities import doing, is_library
from gputop.whereabouts.records import RankPlace


def with_stack(place: RankPlace) -> RankPlace:
    """Return the place with its line, collective and phase; as it was if its stack cannot be read.

    Only of a process of this user that runs or sleeps: the memory of one that waits for a disk may have to wait for it, too.
    """
    if place.pid is None or place.state != "untracked" or place.process_state not in ("R", "S"):
        return place
    calls = None
    with suppress(OSError):
        if procfs.read_uid(place.pid) == os.geteuid():
            calls = StackReader(place.pid).read()
    if not calls:
        return place
    found = where([Frame(call.path, call.line, call.function) for call in calls], is_library)
    activity = doing(calls).activity
    return replace(
        place,
        source="memory",
        line=found.line,
        function=found.function,
        operation=found.operation,
        phase=activity if activity in _PHASES else None,
        stack=found.stack,
    )


_PHASES = ("forward", "backward", "optimizer", "evaluation", "checkpoint", "data")
"""Activities that are phases as tracked ranks report them, too."""
