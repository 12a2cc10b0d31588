"""GPU memory that grows until it is full (H06), and what lies near: a warm-up, plateaus, an evaluation, a slow buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import Scene, gpus, journal, not_tracked, rank, scene, use
from tests.doctor.scenes.near.pairs import Pair
from tests.doctor.tracked import single
from tests.samples import GIB

SECONDS = 42
EVERY_S = 10
"""A snapshot stands for this many seconds: a course of minutes, in few snapshots."""


def with_memory(gib: Callable[[int], float], others: float = 20.0) -> Scene:
    """Four ranks; rank 2 holds this much at each second."""

    def shown(number: int) -> Snapshot:
        second = number * EVERY_S
        held = [gib(second) if index == 2 else others for index in range(4)]
        devices = tuple(
            device
            for index in range(4)
            for device in gpus([index], 4, memory_used_bytes=int(held[index] * GIB))[index : index + 1]
        )
        ranks = tuple(rank(index, use(index, held[index]), world=4, second=second) for index in range(4))
        return scene(second, devices, ranks, (journal(4, second),))

    return shown


leaks = with_memory(lambda second: 20 + second / 60 + 0.02 * (second // 10 % 3))
leaks_untracked = not_tracked(leaks)
warms_up = with_memory(lambda second: 40 - 20 * 0.985**second)
plateaus = with_memory(lambda second: 20 + 5 * (second // 150))
evaluates = with_memory(lambda second: 20.0 if second < 200 else 60.0)
steady = with_memory(lambda second: 70 + 0.05 * (second // 10 % 4))
too_slow = with_memory(lambda second: 20 + second / 900)

HOST_SECONDS = 70


def in_the_machine(gib: Callable[[int], float], taken: float = 1.0) -> Scene:
    """Rank 2 holds so much of the machine's memory, of which the machine lacks this share."""

    def shown(second: int) -> Snapshot:
        shot = with_memory(lambda _: 20.0)(0)
        grown = gib(second)
        ranks = [
            replace(process, memory_rss_bytes=int((grown if number == 2 else 4.0) * GIB))
            for number, process in enumerate(shot.processes)
        ]
        host = replace(shot.host, memory_available_bytes=int((100.0 - taken * (grown - 4.0)) * GIB))
        base = scene(second, shot.devices, tuple(ranks), (journal(4, second),))
        return replace(base, host=host)

    return shown


keeps_everything = in_the_machine(lambda second: 4.0 + 0.1 * second)
buffer_gets_full = in_the_machine(lambda second: 4.0 + 0.1 * min(second, 35))
reads_a_mapped_file = in_the_machine(lambda second: 4.0 + 0.1 * second, taken=0.0)
grows_a_little = in_the_machine(lambda second: 4.0 + 0.01 * second)
POSSIBLE = (("H06", "the machine's memory", keeps_everything, HOST_SECONDS),)

GRAPHS = {"kept": 14, "first": 5, "last": 2400, "released": 0}


def keeps(what: str = "graphs", **changes: int | None) -> Scene:
    """A run that reports such graphs of earlier losses, or of evaluations."""
    facts = {what: {**GRAPHS, **changes}}
    return lambda second: single(second, facts)


keeps_evaluations = keeps("evaluated_graphs", kept=6)


PAIRS = (
    Pair("E04", "losses that are forgotten at times", keeps(released=2), keeps(), 20),
    Pair("E04", "losses of an epoch, or of many steps", keeps(last=700), keeps(), 20, at_most="possible"),
    Pair("E04", "the losses of a few steps", keeps(last=20), keeps(), 20),
    Pair("E04", "a few losses", keeps(kept=4), keeps(), 20),
    Pair(
        "E04", "outputs of an evaluation that are freed", keeps("evaluated_graphs", kept=6, released=1), keeps_evaluations, 20
    ),
    Pair("H06", "a warm-up that levels off", warms_up, leaks, SECONDS),
    Pair("H06", "an allocator that grows in steps", plateaus, leaks, SECONDS),
    Pair("H06", "the jump of an evaluation", evaluates, leaks, SECONDS),
    Pair("H06", "as much as ever", steady, leaks, SECONDS),
    Pair("H06", "so slow that a line says nothing", too_slow, leaks, SECONDS),
)
