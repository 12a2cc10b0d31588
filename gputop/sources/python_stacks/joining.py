"""Which spawned processes are all in torch's ``init_process_group``, as their stacks show: ranks that wait for each other.

Ranks that meet in a file have no socket that would show it, and with gloo all of them listen.
"""

from __future__ import annotations

import re
from collections.abc import Collection

FIRST_AGAIN_S, AGAIN_FACTOR = 5.0, 2.0
"""The stacks of the same processes are read again after this long, and each time this factor later (our choice): a pool of
processes may live for days."""
_MODULE = re.compile(r"/torch/distributed/(distributed_c10d|rendezvous)\.py$")
_FUNCTION = "init_process_group"


class Joining:
    """Looks at the stacks of siblings, at growing intervals."""

    def __init__(self) -> None:
        self._due: dict[int, tuple[Collection[int], float, float]] = {}
        """By parent: the siblings that were looked at, when they are due again, and how long to wait then."""

    def forget_all_but(self, parents: Collection[int]) -> None:
        """Forget the siblings of parents that are gone."""
        self._due = {parent: due for parent, due in self._due.items() if parent in parents}

    def all_join(self, parent: int, pids: Collection[int], now_s: float) -> bool:
        """Return whether all siblings are in ``init_process_group`` now; False while they are not looked at."""
        siblings = frozenset(pids)
        before = self._due.get(parent)
        again_s = before[2] if before is not None and before[0] == siblings else FIRST_AGAIN_S
        if before is not None and before[0] == siblings and now_s < before[1]:
            return False
        self._due[parent] = siblings, now_s + again_s, AGAIN_FACTOR * again_s
        return all(map(_joins, siblings))


def _joins(pid: int) -> bool:
    # Imported with the first stack: most machines have no such processes.
    from gputop.sources.python_stacks.reader import StackReader

    try:
        calls = StackReader(pid).read()
    except OSError:
        return False
    return any(call.function == _FUNCTION and _MODULE.search(call.path) for call in calls or ())
