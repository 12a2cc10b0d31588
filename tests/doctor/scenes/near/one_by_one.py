"""Ranks that average each gradient with a call of its own (E11), and what lies near to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputop.snapshot import Snapshot
from tests.doctor import tracked
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.near.pairs import Pair

TRAINED, LARGEST, TENSORS = 200_000, 1_600, 484


def reducing(
    calls: int = TENSORS,
    reduced: int = TRAINED,
    largest: int = LARGEST,
    *,
    outside_s: Callable[[int], float] = lambda rank: 0.2,
    device: str = "cpu",
    **more: Any,
) -> Scene:
    """Two ranks without a wrapper, with this many calls of all_reduce and elements in each step of 300 ms.

    ``outside_s``: how much of it is no phase, by rank.
    """

    def each(number: int, step: int) -> dict[str, Any]:
        collectives = {"all_reduce": calls * step, **{name: count * step for name, count in more.get("others", {}).items()}}
        facts = {
            "model": {
                "wrapper": None,
                "wrappers": [],
                "parameter_device": device,
                "trained_parameters": TRAINED,
                "largest_parameter": LARGEST,
            },
            "loader": None,
            "ddp": None,
            "wrapper_calls": None,
            "gradients": None,
            "process_group": {"collectives": collectives, "largest": largest, "reduced": reduced * step},
        }
        return tracked.merged(facts, more.get("facts", {}))

    times: tracked.Metrics = {
        "step_s": lambda rank, step: 0.3,
        "loss": tracked.CALM["loss"],
        "phase/forward": lambda rank, step: (0.3 - outside_s(rank)) / 3,
        "phase/backward": lambda rank, step: (0.3 - outside_s(rank)) * 2 / 3,
    }

    def scene(second: int) -> Snapshot:
        return tracked.ddp(second, 2, each, metrics=times)

    return scene


one_by_one = reducing()
on_gpus = reducing(device="cuda:0")
PAIRS = (
    Pair("E11", "gradients in one call", reducing(1, largest=TRAINED), one_by_one, 60),
    Pair("E11", "gradients in forty buckets", reducing(40, largest=5_000), one_by_one, 60),
    Pair("E11", "metrics averaged in each step", reducing(40, reduced=40, largest=1), one_by_one, 60),
    Pair("E11", "experts that exchange tokens", reducing(2, 2, 1, others={"all_to_all_single": TENSORS}), one_by_one, 60),
    Pair("E11", "activations of tensor parallelism", reducing(48, 48 * 65_536, 65_536), one_by_one, 60),
    Pair("E11", "FSDP", reducing(facts={"model": {"wrappers": ["FullyShardedDataParallel"]}}), one_by_one, 60),
    Pair("E11", "a mesh of tensor parallelism", reducing(facts={"model": {"mesh": ["dp", "tp"]}}), one_by_one, 60),
    Pair("E11", "the exchange takes little", reducing(outside_s=lambda rank: 0.02), one_by_one, 60),
    Pair("E11", "a rank waits for the other one", reducing(outside_s=lambda rank: 0.2 * rank), one_by_one, 60),
)
