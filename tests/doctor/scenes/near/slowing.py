"""Runs that slow down (E10), and what lies near: a pace that changes once, batches that grow, a slow beginning."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.near.learning import falls, run_with, with_metrics
from tests.doctor.scenes.near.pairs import Pair
from tests.doctor.tracked import CALM, single

BEGIN, ALL = 98, 360
SECONDS = 120


def run_at(step_s: Callable[[int, int], float], **more: Callable[[int, int], float]) -> Scene:
    """A run whose loss falls as it should, at this pace."""
    return run_with(CALM["loss"], step_s=step_s, **more)  # type: ignore[arg-type]


def grown(rank: int, step: int) -> float:
    """From 0.2 s to 0.5 s."""
    return 0.2 + 0.3 * (step - BEGIN) / ALL + 0.004 * (step % 5)


def printed(rate: Callable[[int, int], float]) -> Scene:
    """A run of which loss and throughput are known, and no more."""
    return lambda second: with_metrics(single(second, {}, metrics={"loss": falls, "throughput": rate}))


def working(scene: Scene, *changes: list[int | None]) -> Scene:
    """The same run, which reports when the work of its steps changed."""

    def stated(second: int) -> Snapshot:
        shot = scene(second)
        facts = {"workload": {"changes": [list(change) for change in changes]}}
        return replace(
            shot,
            runs=tuple(
                replace(run, ranks=tuple(replace(rank, facts={**rank.facts, **facts}) for rank in run.ranks))
                for run in shot.runs
            ),
        )

    return stated


def in_stages(rank: int, step: int) -> float:
    """As long throughout a stage of 40 steps, and longer in the next."""
    return 0.2 * 1.12 ** ((step - BEGIN) // 40) + 0.004 * (step % 5)


EACH = [[number * 40 + BEGIN - 8 * (number > 0), number * 40 + BEGIN, 1000 * 2**number, 4096] for number in range(9)]
"""A layer thaws at the beginning of each stage."""
slows_down = run_at(grown)
slower_hour = run_at(lambda rank, step: 0.3 if 200 < step < 300 else 0.2 + 0.004 * (step % 5))
another_program_came = run_at(lambda rank, step: 0.35 + 0.01 * (step * 7 % 11) if step > 280 else 0.2 + 0.01 * (step * 7 % 11))
larger_batches = run_at(grown, samples_per_s=lambda rank, step: 320.0 + step % 7)
slow_beginning = run_at(lambda rank, step: 0.2 + 2.0 * 0.97 ** (step - BEGIN))
rate_falls = printed(lambda rank, step: 64 / grown(rank, step))
rate_stays = printed(lambda rank, step: 320.0 + step % 7)

slows_down_while_layers_thaw = working(run_at(grown), [98, 98, 1000, 4096], [120, 128, 9000, 4096])
slows_down_at_equal_work = working(run_at(in_stages), [98, 98, 1000, 4096])
layers_thaw = working(run_at(in_stages), *EACH)  # type: ignore[arg-type]
larger_images = working(run_at(grown), *([[98, 98, 1000, 4096], [170, 180, 1000, 6000], [260, 270, 1000, 9000]]))  # type: ignore[arg-type]
thaws_all_the_time = working(run_at(grown), *([[at - 8, at, 9 * at, 4096] for at in range(106, 458, 12)]))

CROWD = (1.0, 1.6, 1.1, 1.9, 1.2, 1.7, 1.4, 1.8)
"""How much longer everything takes on a machine that others use, by eighths of the course."""


def crowded(forward_s: Callable[[float], float]) -> Scene:
    """A run on such a machine, with a forward that takes this long at each share of its course."""

    def part(own_s: Callable[[float], float]) -> Callable[[int, int], float]:
        def value(rank: int, step: int) -> float:
            share = (step - BEGIN) / ALL
            return own_s(share) * CROWD[min(7, int(8 * share))]

        return value

    parts: dict[str, Callable[[float], float]] = {
        "phase/forward": forward_s,
        "phase/backward": lambda share: 0.08,
        "phase/optimizer": lambda share: 0.01,
    }
    whole = part(lambda share: 0.01 + sum(own_s(share) for own_s in parts.values()))
    return run_with(CALM["loss"], step_s=whole, **{name: part(own_s) for name, own_s in parts.items()})  # type: ignore[arg-type]


def with_pauses(step_at: Callable[[int], float], step_s: float = 0.02) -> Scene:
    """A run of such steps with other work between them: at each second it has come to this step."""
    quick = run_at(lambda rank, step: step_s, phase__data=lambda rank, step: 0.001)

    def scene(second: int) -> Snapshot:
        shot = quick(second)
        steps = tuple(range(int(step_at(second - 1)) + 1, int(step_at(second)) + 1))
        points = tuple(
            replace(item, steps=steps, times=(item.times[-1],) * len(steps), values=(item.values[-1],) * len(steps))
            for item in shot.points
            if steps
        )
        now = int(step_at(second))
        runs = tuple(replace(run, ranks=tuple(replace(rank, step=now) for rank in run.ranks)) for run in shot.runs)
        return replace(shot, points=points, runs=runs)

    return scene


rollouts_grow = with_pauses(lambda second: 600 * math.log(1 + (second + 1) / 30))
hardly_any_pauses = with_pauses(lambda second: 600 * math.log(1 + (second + 1) / 30), step_s=0.3)
rollouts_stay = with_pauses(lambda second: 10.0 * second)
rollouts_are_slower_since_then = with_pauses(lambda second: 10.0 * second if second < 60 else 600 + 5.0 * (second - 60))
more_to_roll_out = working(rollouts_grow, *([[at, at, 1000, 4096 * (1 + at // 100)] for at in range(0, 1000, 100)]))
hooks_pile_up = crowded(lambda share: 0.04 + 0.2 * share)
PAIRS = (
    Pair("E10", "a machine that gets crowded", crowded(lambda share: 0.1), hooks_pile_up, SECONDS),
    Pair(
        "E10",
        "a forward that grows as its inputs do",
        working(hooks_pile_up, [BEGIN, BEGIN, 1000, 100], [200, 201, 1000, 600]),
        hooks_pile_up,
        SECONDS,
    ),
    Pair("E10", "a slow hour that passes", slower_hour, slows_down, SECONDS),
    Pair("E10", "another program came", another_program_came, slows_down, SECONDS),
    Pair("E10", "batches that grow", larger_batches, slows_down, SECONDS),
    Pair("E10", "a slow beginning", slow_beginning, slows_down, SECONDS),
    Pair("E10", "layers that thaw in stages", layers_thaw, slows_down_at_equal_work, SECONDS),
    Pair("E10", "images that get larger", larger_images, slows_down_while_layers_thaw, SECONDS),
    Pair("E10", "a layer thaws every few steps", thaws_all_the_time, slows_down, SECONDS, at_most="possible"),
)
