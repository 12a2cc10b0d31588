"""Ranks that train on their own and exchange their weights now and then (F03, F02), and what lies near to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from gputop.snapshot import Points, Snapshot
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.near.pairs import Pair
from tests.doctor.tracked import ddp
from tests.samples import EPOCH

ROUND_S = 10.0
WORKS_S = 0.1
"""A step's time on the GPU: it idles while its rank waits."""
Steps = Callable[[int], list[float]]
"""The seconds that each step of a round takes, by rank; together they fill a round."""
AVERAGED = {"all_reduce": 60, "barrier": 1}


def rounds(steps_of: Steps, collectives: dict[str, int] = AVERAGED, count: int = 2) -> Scene:
    """Ranks without a wrapper that make these steps, round by round; and their calls of collectives."""

    def facts(number: int, step: int) -> dict[str, object]:
        return {
            "model": {"wrapper": None, "wrappers": []},
            "wrapper_calls": None,
            "ddp": None,
            "gradients": None,
            "process_group": {"backend": "nccl", "world_size": count, "rank": number, "groups": 1, "collectives": collectives},
        }

    def scene(second: int) -> Snapshot:
        shot = ddp(second, count, facts)
        found = [_points(number, list(_steps(steps_of(number), second))) for number in range(count)]
        found += [replace(points, metric="cuda/step_s", values=(WORKS_S,) * len(points.steps)) for points in found]
        return replace(shot, points=tuple(points for points in found if points.steps))

    return scene


def _steps(steps: list[float], second: int) -> Iterator[tuple[int, float, float]]:
    """Yield step, time and seconds of each step that ended in this second."""
    for turn in (int((second - 1) // ROUND_S), int(second // ROUND_S)):
        time = max(turn, 0) * ROUND_S
        for place, took in enumerate(steps):
            time += took
            if second - 1 < time <= second and turn >= 0:
                yield 100 + turn * len(steps) + place, EPOCH + time, took


def _points(number: int, steps: list[tuple[int, float, float]]) -> Points:
    columns = tuple(zip(*sorted(set(steps)), strict=True)) or ((), (), ())
    return Points("run-1", number, "step_s", *columns)


more_data_on_one_rank = rounds(lambda rank: [8.1, *[0.1] * 19] if rank == 0 else [0.1] * 100)
"""Rank 0 has a fifth of the data, and waits in each round for rank 1."""
slower_on_one_rank = rounds(lambda rank: [8.1, *[0.1] * 19] if rank == 0 else [0.5] * 20)
"""Rank 1 takes five times as long for as many steps."""
exchange_takes_long = rounds(lambda rank: [2.1, *[0.1] * 79])
"""Both ranks stop for the exchange itself, or while one of them does other work."""
apart = rounds(lambda rank: [8.1, *[0.1] * 19] if rank == 0 else [0.1] * 100, {"barrier": 1})
"""The ranks exchange nothing, so that neither waits for the other."""

POSSIBLE = (
    ("F03", "a rank with more data between two exchanges", more_data_on_one_rank, 60),
    ("F02", "a rank that takes longer between two exchanges", slower_on_one_rank, 60),
)
PAIRS = (Pair("E07", "a rank waits for another one", more_data_on_one_rank, apart, 60, verdict="F03"),)
