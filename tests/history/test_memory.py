"""What the screen and its doctor keep of runs has a bound, however many ranks log and however long."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from gputop.history.series import BUCKETS
from gputop.snapshot import Points
from gputop.tui.machine import Machine
from tests import samples
from tests.tui.kit import StillFeed

METRICS = ("loss", "lr", "grad_norm", "tokens_per_s")
AT_ONCE = 1000
MIB = 2**20
_OF_THE_PROGRAM = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType)


def held_mib(root: object) -> float:
    """Return the MiB of all objects that can be reached from one, without the program itself.

    The same as ``tracemalloc`` counts, but that takes 15 times as long: it also follows all that is needed in between.
    """
    seen, waiting, found = {id(root)}, [root], 0
    while waiting:
        one = waiting.pop()
        found += sys.getsizeof(one)
        for other in gc.get_referents(one):
            if id(other) not in seen and not isinstance(other, _OF_THE_PROGRAM):
                seen.add(id(other))
                waiting.append(other)
    return found / MIB


@pytest.mark.parametrize(("ranks", "allowed_mib"), [(8, 4.2), (64, 11)])
def test_runs_of_any_length_keep_few_mib(ranks: int, allowed_mib: float) -> None:
    """At 100 values per second, what is kept in full and what is merged are both at their limits."""
    feed: Any = StillFeed()
    machine = Machine(feed)
    machine.doctor.load()
    first = samples.snapshot()
    run_id = first.runs[0].run_id
    for start in range(0, 2 * BUCKETS, AT_ONCE):
        steps = tuple(range(start, start + AT_ONCE))
        times, values = tuple(first.time + step / 100 for step in steps), tuple(1 / (1 + step) for step in steps)
        points = tuple(Points(run_id, rank, metric, steps, times, values) for rank in range(ranks) for metric in METRICS)
        at_s = (start + AT_ONCE) / 100
        feed.waiting = [
            replace(first, sequence=start, time=first.time + at_s, monotonic_s=first.monotonic_s + at_s, points=points)
        ]
        machine.take_in()
    feed.waiting = [replace(machine.latest or first, sequence=start + 1, points=())]
    machine.take_in()
    series = machine.history.metric(run_id, "loss")[ranks - 1]
    assert series.by_step.samples >= 2 * BUCKETS
    assert held_mib(machine) < allowed_mib
