"""Untracked ranks that print losses: connected or not, and equal or not (C03, C05).

``PAIRS`` holds each with the fault that it differs from in one thing.
"""

from __future__ import annotations

from dataclasses import replace

from gputop.process import Repeated
from gputop.snapshot import Points, Snapshot
from tests.doctor.scenes.near.pairs import Pair, look_alikes
from tests.doctor.scenes.outside import always, outside
from tests.samples import EPOCH

_TWO = outside(always("runs"), always("runs"))
TWICE = Repeated(2, 64)


def apart(
    second: int,
    connected: bool | None = False,
    repeated: Repeated | None = TWICE,
    threads: tuple[tuple[str, int], ...] = (),
    script: str = "train.py",
) -> Snapshot:
    """Two ranks of torchrun that train, are connected to nothing, and print each loss twice."""
    base = _TWO(second)
    command = ("python", script)
    processes = tuple(replace(item, threads=threads, started_at=EPOCH - 60, command=command) for item in base.processes)
    runs = tuple(replace(run, connected=connected, repeated=repeated) for run in base.process_runs)
    return replace(base, processes=processes, process_runs=runs)


def in_own_files(second: int, differ: bool = False) -> Snapshot:
    """The same, with an output for each rank."""
    base = apart(second, repeated=None)
    (run,) = base.runs
    others = [replace(item, rank=1, values=tuple(value + differ for value in item.values)) for item in base.points]
    first = run.ranks[0]
    return replace(
        base,
        runs=(replace(run, ranks=(first, replace(first, rank=1, pid=4001))),),
        points=(*base.points, *(Points(*(getattr(item, name) for name in Points.__slots__)) for item in others)),
    )


def own_losses_in_own_files(second: int) -> Snapshot:
    return in_own_files(second, differ=True)


def joined(second: int) -> Snapshot:
    """They have a process group; that the losses are equal may be their average."""
    return apart(second, connected=True, threads=(("pt_gloo_runloop", 2),))


def joined_and_each_prints_its_own(second: int) -> Snapshot:
    return replace(joined(second), process_runs=apart(second, connected=True, repeated=None).process_runs)


def unknown_connections(second: int) -> Snapshot:
    """Their sockets are hidden, or one of them listens."""
    return apart(second, connected=None)


def by_other_threads(second: int) -> Snapshot:
    return apart(second, threads=(("pt_nccl_watchdg", 1),))


def each_with_its_own_loss(second: int) -> Snapshot:
    return apart(second, repeated=None)


def printed_three_times(second: int) -> Snapshot:
    """Something else repeats the lines."""
    return apart(second, repeated=Repeated(3, 64))


def an_ensemble(second: int) -> Snapshot:
    return apart(second, script="train_ensemble.py")


PAIRS = (
    Pair("C03", "ranks that are connected print equal losses", joined, apart, 60, at_most="possible"),
    Pair("C03", "whether ranks are connected is unknown", unknown_connections, apart, 60),
    Pair("C03", "ranks without a connection have NCCL's threads", by_other_threads, apart, 60, at_most="possible"),
    Pair("C03", "ranks without a connection print losses of their own", each_with_its_own_loss, apart, 60, at_most="possible"),
    Pair("C03", "lines are printed more often than there are ranks", printed_three_times, apart, 60, at_most="possible"),
    Pair("C03", "a script that is named after an ensemble", an_ensemble, apart, 60, at_most="possible"),
    Pair("C03", "losses differ in the ranks' own files", own_losses_in_own_files, in_own_files, 60, at_most="possible"),
)
LOOK_ALIKES = look_alikes(PAIRS)
