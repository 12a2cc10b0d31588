"""How many collectives torch has begun and completed in this process, as torch itself counts them.

For the group of all ranks, torch's flight recorder has both, with any backend and in 0.06 ms if its entries are left out; the
entries take 160 ms and more, and are never requested. gloo reports no start of an operation, only that it was called and that
it ended. Other groups are counted by their own sequence numbers, and only while a rank is stuck: a group that the script
destroys at that moment would be freed on our thread.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

SHARE = 1000
"""Without a request, counting takes at most this fraction of the time: hundreds of groups make it slow."""
GROUPS_MAX = 6
"""How many process groups besides the default one are counted."""
_DEFAULT_GROUP = "0"


class Counters:
    """The counts of this process; reads them again when it is due."""

    def __init__(self) -> None:
        self.begun: int | None = None
        self.completed: int | None = None
        self._due_s = 0.0

    def read(self, now_s: float, asked: bool) -> None:
        """Read the counts of the group of all ranks; None if torch does not provide them, or while none is due.

        Old counts would be worse than none: they make a rank seem behind.
        """
        self.begun = self.completed = None
        world = _world()
        if world is None or (now_s < self._due_s and not asked):
            return
        started = time.perf_counter()
        with suppress(Exception):  # torch's own interface, which changes with its version
            self.begun, self.completed = _recorded(_recorder(world))
        self._due_s = now_s + SHARE * (time.perf_counter() - started)

    def groups(self) -> list[list[int]]:
        """Return [checksum of its ranks, number of ranks, operations begun] for each group except that of all ranks."""
        world = _world()
        found: list[list[int]] = []
        if world is None:
            return found
        try:
            for group in list(world.pg_map)[1 : GROUPS_MAX + 1]:
                ranks = sorted(world.pg_group_ranks[group])
                begun = int(group._get_sequence_number_for_group())
                found.append([zlib.crc32(repr(ranks).encode()), len(ranks), begun])
        except Exception:  # noqa: BLE001 - as above
            return found
        return found


def _world() -> Any | None:
    """Return torch's table of process groups; None if there is none yet."""
    module: Any = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(module, "_world", None)
    return world if world is not None and getattr(world, "pg_map", None) else None


def _recorder(world: Any) -> Callable[[bool, bool], bytes] | None:
    """Return the flight recorder of the backend that the group of all ranks uses."""
    module: Any = sys.modules.get("torch._C._distributed_c10d")
    backend = str(next(iter(list(world.pg_map.values())))[0])
    names = ("_dump_fr_trace_json",) if "nccl" not in backend else ("_dump_nccl_trace_json",)
    return next((found for name in names if (found := getattr(module, name, None)) is not None), None)


def _recorded(recorder: Callable[[bool, bool], bytes] | None) -> tuple[int | None, int | None]:
    if recorder is None:
        return None, None
    status = json.loads(recorder(False, False)).get("pg_status", {}).get(_DEFAULT_GROUP)
    if not isinstance(status, dict):
        return None, None
    return _count(status.get("last_enqueued_collective")), _count(status.get("last_completed_collective"))


def _count(text: Any) -> int | None:
    number = int(text) if isinstance(text, str | int) else -1
    return number if number >= 0 else None
