"""Ranks that are gone while the others stand still, as their processes show it (G04), and those that only look so.

``PAIRS`` holds each with the fault that it differs from in one thing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import gpus, rank, scene, use
from tests.doctor.scenes.near.pairs import Pair, look_alikes
from tests.samples import GIB

POLLS: dict[str, Any] = {
    "utilization_percent": 100.0,
    "memory_activity_percent": 1.0,
    "sm_activity_percent": 6.0,
    "power_w": 130.0,
}
"""A GPU whose only kernel is NCCL's, which waits for another rank."""
IDLE: dict[str, Any] = {"utilization_percent": 0.0, "memory_activity_percent": 0.0, "sm_activity_percent": 0.0, "power_w": 70.0}


def left_alone(
    second: int,
    gone: tuple[int, ...] = (2,),
    stood_from: int = 10,
    hidden: tuple[int, ...] = (),
    load: dict[str, Any] | None = None,
    **changes: Any,
) -> Snapshot:
    """Four ranks that nobody tracks; after ten seconds some are gone, and the others run no backward any more.

    From then on the survivors' GPUs poll (or bear ``load``), and their processes bear ``changes``; ``hidden`` ranks are never
    visible.
    """
    stood = second >= stood_from
    stays = [number for number in range(4) if number not in hidden and not (stood and number in gone)]
    ranks = (replace(rank(n, use(n), world=4, second=min(second, stood_from)), run_id=None, rank=n) for n in stays)
    now = (POLLS if load is None else load) if stood else {}
    devices = tuple(replace(device, **now) if n in stays else device for n, device in enumerate(gpus(stays, 4)))
    return scene(second, devices, tuple(replace(item, **(changes if stood else {})) for item in ranks))


def found_alone(second: int) -> Snapshot:
    """The same, found when rank 2 was gone already: its GPU is free."""
    return left_alone(second, (), stood_from=0, hidden=(2,))


def left_at_rest(second: int, gone: tuple[int, ...] = (2,)) -> Snapshot:
    """The same with gloo: the survivors sleep, and no GPU polls."""
    return left_alone(second, gone, load=IDLE, state="S", cpu_percent=0.4)


def one_evaluates(second: int) -> Snapshot:
    """The training is over: rank 0 alone runs the final evaluation at full load."""
    return left_alone(second, (1, 2, 3), load={})


def one_uploads(second: int) -> Snapshot:
    """The training is over: rank 0 alone sends its results away; its GPU idles."""
    return left_alone(second, (1, 2, 3), load=IDLE, state="S", cpu_percent=30.0)


def one_writes(second: int) -> Snapshot:
    """The training is over: rank 0 alone writes its weights to a slow disk."""
    written = 2**30 + max(0, second - 10) * 20 * 2**20
    return left_alone(second, (1, 2, 3), load=IDLE, state="S", cpu_percent=2.0, read_bytes=0, written_bytes=written)


def gone_and_going_on(second: int) -> Snapshot:
    """Ranks that do not wait for one another, as in a sweep that a launcher has started."""
    ranks = (replace(rank(n, use(n), world=4, second=second), run_id=None, rank=n) for n in (0, 1, 3))
    return scene(second, gpus((0, 1, 3), 4), tuple(ranks))


def some_evaluate(second: int) -> Snapshot:
    """Two ranks are done, the two others test at full load."""
    return left_alone(second, (1, 2), load={})


def unseen_ones_evaluate(second: int) -> Snapshot:
    """Two of four ranks run in a container of which nothing is visible; all evaluate at full load."""
    return left_alone(second, (), hidden=(2, 3), load={})


def unseen_ones_wait(second: int) -> Snapshot:
    """The same, and all wait for something: nothing shows that the two have gone."""
    base = left_alone(second, (), hidden=(2, 3))
    return replace(base, devices=tuple(replace(device, memory_used_bytes=71 * GIB) for device in base.devices))


PAIRS = (
    Pair("G04", "the others train on", gone_and_going_on, left_alone, 60),
    Pair("G04", "all ranks are there", lambda second: left_alone(second, ()), left_alone, 60),
    Pair("G04", "all have just stopped", lambda second: left_alone(second, stood_from=50), left_alone, 60),
    Pair("G04", "rank 0 alone evaluates after the training", one_evaluates, left_alone, 120),
    Pair("G04", "rank 0 alone uploads after the training", one_uploads, left_at_rest, 120),
    Pair("G04", "rank 0 alone writes after the training", one_writes, left_at_rest, 120),
    Pair(
        "G04",
        "one rank is left, and rests",
        lambda second: left_at_rest(second, (1, 2, 3)),
        left_at_rest,
        60,
        at_most="possible",
    ),
    Pair("G04", "two ranks evaluate after the training", some_evaluate, left_alone, 120),
    Pair("G04", "ranks that were never visible, while all evaluate", unseen_ones_evaluate, left_alone, 120),
    Pair("G04", "ranks that were never visible, while all wait", unseen_ones_wait, found_alone, 50),
)
LOOK_ALIKES = look_alikes(PAIRS)
