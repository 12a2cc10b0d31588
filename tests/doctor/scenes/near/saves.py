"""An untracked run whose losses stop coming every twenty steps, while it writes a file or does something else (E07).

``PAIRS`` holds each with the fault that it differs from in one thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gputop.snapshot import Snapshot
from tests.doctor.scenes.near.pairs import Pair, look_alikes
from tests.doctor.scenes.outside import always, outside

_TRAINS = outside(always("runs"))
_ROUND_S = 20
_SIZE = 60 * 2**20
"""Bytes per second of a checkpoint."""


def _bytes_within(second: int, pauses: Callable[[int], bool]) -> int:
    return sum(_SIZE for each in range(second) if pauses(each))


def saves(
    second: int,
    pauses: Callable[[int], bool] = lambda second: second % _ROUND_S >= _ROUND_S // 2,
    writes: Callable[[int], bool] | None = None,
) -> Snapshot:
    """Half of the time, no loss comes, and the process writes."""
    base = _TRAINS(second)
    written = _bytes_within(second, writes or pauses)
    processes = tuple(replace(item, written_bytes=written) for item in base.processes)
    return replace(base, processes=processes, points=() if pauses(second) else base.points)


def slow_steps(last: int) -> Callable[[int], Snapshot]:
    """A crowded machine: a loss every four seconds, and after the third one a pause of ``last`` seconds, to write."""

    def scene(second: int) -> Snapshot:
        return saves(second, pauses=lambda each: each % (8 + last) not in (0, 4, 8), writes=lambda each: each % (8 + last) > 8)

    return scene


def writes_all_the_time(second: int) -> Snapshot:
    """A log of samples: what is written does not stop the training, and something else does."""
    return saves(second, writes=lambda each: True)


def evaluates(second: int) -> Snapshot:
    return saves(second, writes=lambda each: False)


def saves_quickly(second: int) -> Snapshot:
    return saves(second, pauses=lambda each: each % _ROUND_S >= _ROUND_S - 4)


def pauses_at_any_time(second: int) -> Snapshot:
    """Not at intervals: another program takes the disk now and then."""
    return saves(second, pauses=lambda each: any(begin <= each < begin + 8 for begin in (12, 28, 66, 82, 130)))


PAIRS = (
    Pair("E07", "losses pause while the process writes as it always does", writes_all_the_time, saves, 120),
    Pair("E07", "losses pause and nothing is written", evaluates, saves, 120),
    Pair("E07", "checkpoints that take little of the time", saves_quickly, saves, 120),
    Pair("E07", "checkpoints at no intervals", pauses_at_any_time, saves, 140),
)
LOOK_ALIKES = look_alikes(PAIRS)
