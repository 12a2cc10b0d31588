"""What untracked trainings held before: their epoch, the mode of their models, and the length of their lists. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from gputop.process import Process, ProcessKey
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Holdings


@dataclass(slots=True)
class _Past:
    epoch: int | None = None
    """The first that was seen."""
    has_trained: bool = False
    lengths: dict[str, int] = field(default_factory=dict)
    """Of each list of tensors that has only grown, the first length that was seen."""
    newest: dict[str, int] = field(default_factory=dict)


class HeldPast:
    """What each process was seen to hold. ``Evidence`` feeds it each snapshot."""

    def __init__(self) -> None:
        self._past: dict[ProcessKey, _Past] = {}

    def observe(self, snapshot: Snapshot) -> None:
        """Process the next snapshot of the stream."""
        kept: dict[ProcessKey, _Past] = {}
        for process in snapshot.processes:
            if process.held is not None:
                past = kept[process.key] = self._past.get(process.key) or _Past()
                past.epoch = process.held.epoch if past.epoch is None else past.epoch
                past.has_trained |= _trains(process.held)
                now = {item.name: item.length for item in process.held.lists}
                past.lengths = {
                    name: past.lengths[name] if name in past.lengths and past.newest.get(name, 0) <= length else length
                    for name, length in now.items()
                }
                past.newest = now
        self._past = kept

    def epochs_begun(self, process: Process) -> int:
        """Return how many epochs its training has begun since it was first seen, by its own count; 0 if it has none."""
        past = self._past.get(process.key)
        if past is None or past.epoch is None or process.held is None or process.held.epoch is None:
            return 0
        return process.held.epoch - past.epoch

    def grown_list(self, process: Process) -> tuple[str, int, int] | None:
        """Return the list of tensors that has grown most, and never shrunk: its name, its first length, and its length now.

        None if none has doubled.
        """
        past = self._past.get(process.key)
        grown = (
            [(past.newest[name] - first, name) for name, first in past.lengths.items() if past.newest[name] >= 2 * first]
            if past is not None
            else []
        )
        if past is None or not grown:
            return None
        name = max(grown)[1]
        return name, past.lengths[name], past.newest[name]

    def has_trained(self, process: Process) -> bool:
        """Return whether a model of it was seen in training mode."""
        past = self._past.get(process.key)
        return past is not None and past.has_trained


def _trains(held: Holdings) -> bool:
    return held.models is not None and not held.models.evaluates
