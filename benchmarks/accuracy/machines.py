"""More machines of the first set of strangers, formerly set aside: one snapshot per second, as in ``scenes``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from accuracy.cases import Case
from gputop.snapshot import DeviceUse, Snapshot

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import samples
from tests.doctor import tracked
from tests.doctor.scenes.base import Scene, gpus, journal, rank, scene, single, use
from tests.samples import GIB

# ---- faults


def nproc_four_on_eight_cards(second: int) -> Snapshot:
    """The script of a machine with four GPUs, started with --nproc_per_node 4 on one with eight."""
    ranks = tuple(rank(number, use(number, 33.0, 94.0), world=4, second=second) for number in range(4))
    return scene(second, gpus(range(4)), ranks, (journal(4, second),))


def memory_without_an_owner(second: int) -> Snapshot:
    """GPU 3 rests and holds 46 GiB that belong to no process; somebody trains on GPUs 0 and 1."""
    ranks = tuple(rank(n, use(n, 52.0), world=2, second=second, cuda_visible_devices="0,1") for n in range(2))
    left = samples.idle_device(3, memory_used_bytes=46 * GIB, power_w=74.0)
    return scene(second, (*gpus([0, 1], 3), left), ranks, (journal(2, second),))


def layers_in_turns(second: int) -> Snapshot:
    """A model of 60 GiB over four cards by device_map: one batch takes eight seconds, two on each card."""
    turn = second // 2 % 4
    devices = tuple(
        samples.device(
            n,
            utilization_percent=96.0 if n == turn else 0.0,
            sm_activity_percent=81.0 if n == turn else 0.0,
            power_w=420.0 if n == turn else 118.0,
            memory_used_bytes=int((15.0 + n) * GIB),
        )
        for n in range(4)
    )
    uses = tuple(use(n, 14.5 + n, 96.0 if n == turn else 0.0) for n in range(4))
    threads = tuple((n, 30.0 + second / 4) for n in range(4))
    process = replace(single(4000, *uses, second=second, visible=4), autograd_threads=threads)
    return scene(second, devices, (replace(process, command=("python", "qlora.py", "--base", "70b")),))


def rank_five_was_killed(second: int) -> Snapshot:
    """Seven of eight ranks spin in a collective at the power of a card that computes nothing; rank 5 is gone."""
    devices = tuple(
        samples.device(n, utilization_percent=100.0, power_w=131.0, sm_activity_percent=3.0, tensor_activity_percent=0.0)
        if n != 5
        else samples.idle_device(5)
        for n in range(8)
    )
    base = journal(8, 0)
    ranks = tuple(replace(item, state="killed", exit_code=-9) if item.rank == 5 else item for item in base.ranks)
    alive = [rank(n, use(n, 61.0, 100.0), world=8, second=0) for n in range(8) if n != 5]
    run = replace(base, state="killed", ranks=ranks)
    return tracked.ddp(second, 8, frozen=True, devices=devices, processes=alive, run=run)


def one_rank_reads_over_the_network(second: int) -> Snapshot:
    """Rank 2 waits 0.12 s of each step of 0.3 s for its batch; the others spend that time in backward."""
    slow = 2
    metrics: dict[str, Callable[[int, int], float | None]] = {
        **tracked.CALM,
        "phase/data": lambda r, s: 0.12 if r == slow else 0.008,
        "phase/forward": lambda r, s: 0.07,
        "phase/backward": lambda r, s: 0.09 if r == slow else 0.202,
        "phase/optimizer": lambda r, s: 0.015,
    }

    def each(number: int, step: int) -> dict[str, Any]:
        return {"ddp": {"forward_s": 0.07, "backward_s": 0.09 if number == slow else 0.202}}

    devices = tuple(samples.device(n, utilization_percent=62.0 if n == slow else 99.0, power_w=380.0) for n in range(4))
    return tracked.ddp(second, 4, each=each, metrics=metrics, devices=devices)


# ---- healthy


def notebook_rests_beside_a_job(second: int) -> Snapshot:
    """A kernel holds the model of this morning on GPU 0, while a colleague trains on GPUs 2 and 3."""
    command = ("python", "-m", "ipykernel_launcher", "-f", "/home/ada/.local/share/jupyter/runtime/kernel-51.json")
    kernel = replace(single(8100, use(0, 12.0, 0.0), second=0, visible=1, mask="0"), command=command)
    kernel = replace(kernel, cpu_percent=0.3, state="S")
    ranks = tuple(
        replace(rank(n, use(2 + n, 64.0), world=2, second=second, cuda_visible_devices="2,3"), uid=1007, user="lin")
        for n in range(2)
    )
    resting = samples.idle_device(0, memory_used_bytes=int(12.6 * GIB), power_w=82.0)
    return scene(second, (resting, *gpus([2, 3], 4)[1:]), (kernel, *ranks), (journal(2, second),))


def four_small_runs_under_mps(second: int) -> Snapshot:
    """Four seeds of a small network share one card through MPS, on purpose."""
    contexts = tuple(DeviceUse(use(0).device_uuid, int(5.5 * GIB), 23.0, "M") for _ in range(4))
    runs = tuple(
        replace(single(4000 + n, contexts[n], second=second, visible=1), command=("python", "td3.py", "--seed", str(n)))
        for n in range(4)
    )
    base = scene(second, gpus([0], 1, utilization_percent=93.0, memory_used_bytes=23 * GIB), runs)
    return replace(base, host=replace(base.host, mps_server_pid=880))


def compiles_before_it_goes_on(second: int) -> Snapshot:
    """A run goes on from a checkpoint; torch.compile takes 70 seconds of CPU before the first step."""
    if second >= 70:
        return tracked.single(second, {})
    base = journal(1, 0)
    waiting = replace(base.ranks[0], step=None, last_log_at=None, metrics={}, facts=tracked.merged(tracked.PLAIN))
    compiling = samples.idle_device(0, memory_used_bytes=9 * GIB, utilization_percent=1.0 * (second % 9 == 0), power_w=95.0)
    process = tracked.one_process(0, 0, gib=[8.5], visible=1, cpu_percent=612.0, main_thread_cpu_percent=88.0)
    return samples.snapshot(
        second, devices=(compiling,), processes=(process,), runs=(replace(base, ranks=(waiting,)),), points=()
    )


MACHINES: dict[str, Scene] = {
    build.__name__.replace("_", "-"): build
    for build in (
        nproc_four_on_eight_cards,
        memory_without_an_owner,
        layers_in_turns,
        rank_five_was_killed,
        one_rank_reads_over_the_network,
        notebook_rests_beside_a_job,
        four_small_runs_under_mps,
        compiles_before_it_goes_on,
    )
}
JOURNAL_ONLY = ("one-rank-reads-over-the-network",)
CASES: tuple[Case, ...] = (
    # Four ranks on four cards, and four more that they see and nobody uses.
    Case("nproc-four-on-eight-cards", ("A02",)),
    # The memory of an idle card exceeds what its processes hold: they were killed, or hide.
    Case("memory-without-an-owner", ("H04",)),
    # The four cards together are as busy as one.
    Case("layers-in-turns", ("A10", "E08")),
    # The others wait for a rank that is dead; from outside only the standstill is to be seen.
    Case("rank-five-was-killed", ("G04",), acceptable=("G01",)),
    # One rank's data explains the wait of all others.
    Case("one-rank-reads-over-the-network", ("F01",), acceptable=("D01",)),
    # The kernel computes nothing, and the job uses its own two cards.
    Case("notebook-rests-beside-a-job"),
    # The MPS server says that the card is shared on purpose; none of the runs is a rank.
    Case("four-small-runs-under-mps"),
    # A pause before the first step, on a CPU that works.
    Case("compiles-before-it-goes-on"),
)
