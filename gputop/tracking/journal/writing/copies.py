"""What a copy of a run is: in the process that opened the run, the run itself; in another process, something that records
nothing. A script may hold a run in an object that it copies, saves, or sends to a process that it spawns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from gputop.tracking.journal.notice import warn

_here: WeakValueDictionary[str, Any] = WeakValueDictionary()


def ticket(item: Any) -> str:
    """Return what stands for an object of this process in a pickle."""
    for known, other in list(_here.items()):
        if other is item:
            return known
    made = os.urandom(12).hex()
    _here[made] = item
    return made


def of_ticket(given: str) -> Any:
    """Return the object that it stands for; None in another process, and once the object is gone."""
    return _here.get(given)


def log(
    data: Mapping[str, Any] | None = None, step: int | None = None, commit: bool | None = None, *ignored: Any, **metrics: Any
) -> None:
    """Record nothing, and say so once."""
    warn("a run that another process opened records nothing here: log in that process, or call gputop.init() in this one.")


class Absent:
    """Stands for the journal of another process."""

    closed: ClassVar[bool] = True
    log = staticmethod(log)


def journal(given: str) -> Any:
    """Return the journal of a ticket, or what stands for it."""
    found = of_ticket(given)
    return Absent() if found is None else found
