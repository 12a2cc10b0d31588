"""Ranks whose parallelism is written by hand: no wrapper, no mesh, only the group of all ranks; and the faults beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gputop.snapshot import Snapshot
from tests.doctor import tracked
from tests.doctor.scenes.base import Scene

_BARE = {"model": {"wrapper": None, "wrappers": [], "mesh": []}, "ddp": None, "wrapper_calls": None, "gradients": None}


def by_hand(
    calls: Mapping[str, int],
    *,
    batches: str = "equal",
    weights: str | None = "unlike",
    losses: str = "equal",
    world: int = 4,
    times: tracked.Metrics | None = None,
    in_all: Mapping[str, int] | None = None,
    largest: int | None = None,
    own: Callable[[int], Mapping[str, Any]] | None = None,
) -> Scene:
    """Ranks with this many calls in each step, and ``in_all`` of the whole run. ``losses`` "last": only the last rank has one.

    ``largest``: elements of the largest tensor passed on; the largest parameter has 262,144. ``own``: more facts of each rank.
    """

    def each(number: int, step: int) -> dict[str, Any]:
        collectives = {**{name: count * step for name, count in calls.items()}, **(in_all or {})}
        group = {"backend": "nccl", "world_size": world, "rank": number, "groups": 1, "collectives": collectives}
        facts: dict[str, Any] = {
            **_BARE,
            "model": {**_BARE["model"], "largest_parameter": 262_144},
            "process_group": {**group, **({} if largest is None else {"largest": largest})},
        }
        if batches == "equal":
            facts["batches"] = {"recent": [[at, 777 + at] for at in range(step - 15, step + 1)], "epochs": [[0, 77]]}
        unlike = number if weights == "unlike" else 0
        probes = range(step - step % 10 - 30, step + 1, 10)
        facts["parameters"] = {"recent": [[at, 5000 + at + 1000 * unlike, 1.5 + unlike] for at in probes]} if weights else None
        return tracked.merged(facts, own(number) if own is not None else {})

    def loss(number: int, step: int) -> float | None:
        if losses == "last" and number < world - 1:
            return None
        return 2.0 - step * 0.001 + ((step * 7 + (13 * number if losses == "unlike" else 0)) % 11) * 0.01

    def scene(second: int) -> Snapshot:
        return tracked.ddp(second, world, each=each, metrics={**tracked.CALM, "loss": loss, **(times or {})})

    return scene


PASSED_ON = {"send": 8, "recv": 8}
APART = partial(by_hand, {}, batches="own", losses="unlike")
BY_HAND: tuple[tuple[str, Scene, int], ...] = (
    ("tensor parallel by hand", by_hand({"all_reduce": 24}), 40),
    ("pipeline by hand", by_hand(PASSED_ON, losses="last"), 40),
    ("pipeline by hand, whose stages read no data", by_hand(PASSED_ON, losses="last", batches="own"), 40),
    ("experts by hand", by_hand({"all_to_all_single": 8, "all_reduce": 30}, batches="own", losses="unlike"), 40),
    ("context parallel by hand", by_hand({**PASSED_ON, "all_reduce": 30}, weights="same", losses="unlike"), 40),
    ("tensor parallel by hand, weights unknown", by_hand({"all_reduce": 24}, weights=None), 40),
    ("weights averaged now and then, as one tensor each", APART(in_all={"all_reduce": 12}, largest=262_144), 60),
    ("weights averaged now and then, as one tensor", APART(in_all={"all_reduce": 2}, largest=11_000_000), 60),
    (
        "averaged outside torch.distributed",
        by_hand({}, batches="own", losses="unlike", weights="same", own=lambda rank: {"process_group": None}),
        40,
    ),
    ("weights that may be averaged later", APART(), 12),
)


def _undivided(rank: int) -> dict[str, Any]:
    """No sampler divides the data."""
    return {"sampler": None}


def _saves_its_own(rank: int) -> dict[str, Any]:
    saved = {"seconds": 0.1, "bytes": 1 << 20, "path": f"/data/out/{rank}.pt", "step": 100}
    return {**_undivided(rank), "checkpoint": saved}


def _seeded(seed: Callable[[int], int], alone: bool = True) -> Callable[[int], dict[str, Any]]:
    """Ranks with a seed each; ``alone``: none joins a process group."""

    def own(rank: int) -> dict[str, Any]:
        apart = {"process_group": None} if alone else {}
        return {**_undivided(rank), "settings": {"seed": seed(rank)}, **apart}

    return own


def _saves_the_same(rank: int) -> dict[str, Any]:
    return {**_undivided(rank), "checkpoint": {**_saves_its_own(0)["checkpoint"]}}


_MEMBERS = partial(APART, own=_undivided)
votes_now_and_then = _MEMBERS(in_all={"all_gather": 12}, largest=3_000)
rates_of_their_own = _MEMBERS(times={"lr": lambda rank, step: 1e-3 * (1 + rank)})
SEPARATE: tuple[tuple[str, Scene, int], ...] = (
    ("predictions gathered now and then", votes_now_and_then, 60),
    ("votes summed now and then", _MEMBERS(in_all={"all_reduce": 12}, largest=3_000), 60),
    ("each rank saves its own model", APART(own=_saves_its_own), 60),
    ("each rank has its own seed, and no process group", APART(own=_seeded(lambda rank: 41 + rank)), 60),
)
"""Ranks that may train separate models on purpose."""
CHOSEN: tuple[tuple[str, Scene, int], ...] = (
    ("each rank has its own learning rate", rates_of_their_own, 60),
    ("each rank trains a model of its own size", _MEMBERS(own=lambda rank: {"model": {"trained_parameters": 1000 * rank}}), 60),
    ("searched on the same batches", by_hand({}, losses="unlike", times={"lr": lambda rank, step: 1e-3 * (1 + rank)}), 60),
)
"""Ranks that train separate models for certain."""
_AVERAGED = partial(by_hand, {"all_reduce": 1}, batches="own", losses="unlike", weights="same", world=2, largest=11_000_000)


def _step(rank: int, step: int) -> float:
    return 0.3


def _longer(rank: int, step: int) -> float:
    """Rank 1 has the longer recordings: in each of its passes."""
    return 0.12 if rank == 1 else 0.04


longer_on_rank_1 = _AVERAGED(times={"step_s": _step, "phase/forward": _longer, "phase/backward": _longer})
shards_of_unlike_size = by_hand(
    {"all_reduce": 2}, world=2, largest=11_000_000, times={"step_s": _step, "phase/forward": _longer, "phase/backward": _longer}
)
longer_in_turn = _AVERAGED(
    times={
        "step_s": _step,
        "phase/forward": lambda rank, step: _longer((rank + step) % 2, step),
        "phase/backward": lambda rank, step: _longer((rank + step) % 2, step),
    }
)
same_worlds = by_hand({}, batches="own", weights="same", own=lambda rank: {"process_group": None})
FAULTS: tuple[tuple[str, str, Scene, int], ...] = (
    ("C03", "no process group, and the same work", same_worlds, 40),
    ("C05", "averaged by hand, on the same batches", by_hand({"all_reduce": 30}, weights="same"), 12),
    ("C03", "nothing exchanged", by_hand({}, batches="own", losses="unlike"), 12),
    ("C03", "nothing exchanged for 200 steps", APART(), 40),
    ("C03", "no process group, and one seed", APART(own=_seeded(lambda rank: 41)), 40),
    ("C03", "a process group, and a seed for each rank", APART(own=_seeded(lambda rank: 41 + rank, alone=False)), 40),
    ("C03", "metrics averaged now and then", APART(in_all={"all_reduce": 12}, largest=64), 40),
    ("C03", "metrics averaged now and then, and no sampler", _MEMBERS(in_all={"all_reduce": 12}, largest=64), 40),
    ("C03", "one loss averaged now and then", by_hand({"all_reduce": 1}, batches="own", losses="unlike"), 12),
    ("C03", "predictions gathered, and the data divided", APART(in_all={"all_gather": 12}, largest=3_000), 60),
    (
        "C03",
        "one rate, which each rank lowers in the end",
        APART(times={"lr": lambda rank, step: 1e-3 * (1 + (step > 250) * rank)}),
        60,
    ),
    ("C03", "all ranks save one file", APART(own=_saves_the_same), 60),
    ("F02", "averaged by hand, and one rank takes longer", longer_on_rank_1, 40),
)
UNLIKE: tuple[tuple[str, Scene, int], ...] = (
    ("shards of unlike size", shards_of_unlike_size, 40),
    ("averaged by hand, and the ranks take longer in turn", longer_in_turn, 40),
)
