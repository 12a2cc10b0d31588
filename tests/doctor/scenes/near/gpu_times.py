"""Stragglers on GPUs (F): hosts only queue the work, so that the times of CUDA events say who waits, and not the hosts'.

The times are those of tests/recordings/h200_shared.ndjson.gz: the host takes 0.5 ms for a forward of 17 ms and 32 ms for an
optimizer of 5 ms, since it waits there until its queue has room. One step in half a second is timed on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.near.pairs import Pair
from tests.doctor.scenes.pace import MS, turn
from tests.doctor.tracked import CALM, ddp

Part = Callable[[int, int], float | None]
FORWARD, BACKWARD, OPTIMIZER = 17.2 * MS, 32.5 * MS, 4.7 * MS


def on_gpus(forward: Part = lambda rank, step: FORWARD, idle: Part = lambda rank, step: 0.0, **host: Part) -> Scene:
    """DDP on four GPUs that work this long, or have nothing to do; the others wait in their backward. ``host``: its times."""

    def before(rank: int, step: int) -> float:
        return (forward(rank, step) or 0.0) + (idle(rank, step) or 0.0)

    def last(step: int) -> float:
        return max(before(rank, step) for rank in range(4))

    def whole(rank: int, step: int) -> float:
        return last(step) + BACKWARD + OPTIMIZER

    def timed(part: Part) -> Part:
        return lambda rank, step: part(rank, step) if step % 2 else None

    metrics: dict[str, Part] = {
        **CALM,
        # The host is now ahead, and then waits: the throughput goes by the clock.
        "step_s": lambda rank, step: whole(rank, step) * (1.2 if (step + rank) % 2 else 0.8),
        "pace_s": whole,
        "samples_per_s": lambda rank, step: 64 / whole(rank, step),
        "phase/forward": lambda rank, step: 0.5 * MS,
        "phase/backward": lambda rank, step: 23.1 * MS,
        "phase/optimizer": lambda rank, step: whole(rank, step) - 24 * MS,
        **{f"phase/{name}": part for name, part in host.items()},
        "cuda/step_s": timed(whole),
        "cuda/forward_s": timed(forward),
        "cuda/backward_s": timed(lambda rank, step: last(step) - before(rank, step) + BACKWARD),
        "cuda/optimizer_s": timed(lambda rank, step: OPTIMIZER),
    }
    return lambda second: ddp(second, metrics=metrics)


def of(rank: int, more: float, usual: float = 0.0) -> Part:
    """So much on one rank, and the usual on the others."""
    return lambda number, step: more if number == rank else usual


in_step = on_gpus()
slower_card = on_gpus(forward=of(2, 2 * FORWARD, FORWARD))
data_is_late = on_gpus(idle=of(1, 40 * MS), data=of(1, 40 * MS, 0.2 * MS))
loads_while_its_gpu_works = on_gpus(
    data=of(1, 40 * MS, 0.2 * MS), backward=of(1, 4 * MS, 44 * MS), optimizer=of(1, 9 * MS, 9 * MS)
)
draws_in_each_step = on_gpus(idle=of(0, 40 * MS))
reads_its_loss_in_each_step = on_gpus(backward=of(0, 4 * MS, 44 * MS), optimizer=of(0, 2 * MS, 9 * MS))
sentences_by_turns = on_gpus(forward=lambda rank, step: (3 if rank == turn(step // 2) else 1) * FORWARD)
hosts_by_turns = on_gpus(
    forward=lambda rank, step: FORWARD,
    backward=lambda rank, step: 4 * MS if rank == turn(step) else 44 * MS,
    optimizer=lambda rank, step: 9 * MS,
)
held_up_by_turns = on_gpus(idle=lambda rank, step: 40 * MS if rank == turn(step // 2) else 0.0)

PAIRS = (
    Pair("F01", "GPUs in step with each other", in_step, data_is_late, 40),
    Pair("F01", "a host that loads while its GPU works", loads_while_its_gpu_works, data_is_late, 40),
    Pair("F02", "GPUs in step with each other", in_step, slower_card, 40),
    Pair("F03", "hosts that queue their work in turn", hosts_by_turns, sentences_by_turns, 40),
    Pair("F04", "hosts that queue their work in turn", hosts_by_turns, held_up_by_turns, 40),
    Pair("F05", "only one host that waits for its GPU", reads_its_loss_in_each_step, draws_in_each_step, 40),
)
