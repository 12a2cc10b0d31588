"""What untracked trainings held before: at which epoch they were, and whether their models were in training mode. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gputop.process import Process, ProcessKey
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Holdings


@dataclass(slots=True)
class _Past:
    epoch: int | None = None
    """The first that was seen."""
    has_trained: bool = False


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
        self._past = kept

    def epochs_begun(self, process: Process) -> int:
        """Return how many epochs its training has begun since it was first seen, by its own count; 0 if it has none."""
        past = self._past.get(process.key)
        if past is None or past.epoch is None or process.held is None or process.held.epoch is None:
            return 0
        return process.held.epoch - past.epoch

    def has_trained(self, process: Process) -> bool:
        """Return whether a model of it was seen in training mode."""
        past = self._past.get(process.key)
        return past is not None and past.has_trained


def _trains(held: Holdings) -> bool:
    return held.models is not None and not held.models.evaluates
