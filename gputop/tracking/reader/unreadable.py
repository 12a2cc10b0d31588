"""The note in a snapshot on runs whose journals cannot be read: damaged, another user's, or of a newer gputop."""

from __future__ import annotations

from collections.abc import Mapping

from gputop.snapshot import Problem

CODE = "unreadable_runs"


def note_of(found: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return one note that names the first of them, and how many more there are.

    ``found``: run id -> its file and the reason, at least one.
    """
    first = min(found)
    others = len(found) - 1
    what = "Move that file away to silence this message."
    if others:
        what = f"Nor can {others} other{'s' if others > 1 else ''}. gputop runs names them all."
    return (Problem(CODE, f"Run {first} cannot be read: {found[first]}.", what),)
