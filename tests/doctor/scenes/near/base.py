"""Scenes that lie near a fault and are none: the fault's own scene with the one thing changed that makes it the fault.

``PAIRS`` holds each with that fault, as do the other modules here for launch and placement, error texts and readings.
Other rooms have rows of LOOK_ALIKES beside their FAULTS.
"""

from __future__ import annotations

from dataclasses import replace

from gputop.snapshot import Snapshot
from tests import samples
from tests.doctor.rules import test_faults as faults
from tests.doctor.scenes.base import gpus, journal, rank, scene, use
from tests.doctor.scenes.by_hand import by_hand
from tests.doctor.scenes.hangs import counted
from tests.doctor.scenes.near.pairs import Pair, look_alikes
from tests.doctor.scenes.pace import (
    MS,
    first_hangs,
    jitter,
    rank_0_draws,
    rank_0_draws_before_it_sends_buffers,
    small_shm_for_nccl,
    timed,
    turn,
    with_host,
)
from tests.doctor.scenes.placement import (
    data_parallel_on_mig,
    doubled,
    exclusive,
    local_rank_refused,
    one_run_on_an_instance,
    two_gpus_for_each_rank,
)
from tests.doctor.tracked import ddp
from tests.samples import GIB


def joined_by_nvlink(second: int) -> Snapshot:
    base = first_hangs(second)
    return replace(base, devices=tuple(replace(device, nvlinks_active=4) for device in base.devices))


def first_of_many(second: int) -> Snapshot:
    """The counts go on: the first collective operation was slow, and came to its end."""
    base = counted(1, 1, 1, 1, moving=True)(second)
    return replace(base, devices=first_hangs(second).devices)


def enough_shared_memory(second: int) -> Snapshot:
    return with_host(small_shm_for_nccl(second), shm_total_bytes=8 * GIB)


def one_with_nccl(second: int) -> Snapshot:
    base = small_shm_for_nccl(second)
    return replace(base, processes=base.processes[:1], runs=())


def busy_in_default_mode(second: int) -> Snapshot:
    return exclusive(second, "default")


def took_its_local_rank(second: int) -> Snapshot:
    """The text stands in the log of a run that trains."""
    base = local_rank_refused(second)
    return replace(base, runs=tuple(replace(run, state="running") for run in base.runs))


def divided(second: int, **changes: float) -> Snapshot:
    devices = tuple(samples.device(n, **{"power_w": 180.0, "utilization_percent": 70.0, **changes}) for n in range(4))
    return ddp(second, each=lambda number, step: {"loader": {"batch_size": 16, "length": 782}}, devices=devices)


def small_rows_at_full_power(second: int) -> Snapshot:
    return divided(second, power_w=600.0)


def large_rows_at_little_power(second: int) -> Snapshot:
    devices = tuple(samples.device(n, power_w=180.0, utilization_percent=70.0) for n in range(4))
    return ddp(second, each=lambda number, step: {"loader": {"batch_size": 256, "length": 49}}, devices=devices)


def by_turns_and_unfelt(second: int) -> Snapshot:
    """Another rank is held up at each step, by half a millisecond of sixty."""
    late = timed(lambda r, s: 0.2 * MS, lambda r, s: 10 * MS, lambda r, s: 39.5 * MS if r == s % 4 else 40 * MS)
    return ddp(second, metrics=late)


averaged_after_backward = by_hand(
    {"all_reduce": 1},
    batches="own",
    weights="same",
    losses="unlike",
    times=timed(lambda r, s: 0.2 * MS, lambda r, s: 10 * MS, lambda r, s: 10 * MS if r == turn(s) else 40 * MS),
)
"""No wrapper: the exchange comes after backward, whose time is the rank's own."""


def rank_0_draws_unfelt(second: int) -> Snapshot:
    late = timed(lambda r, s: 0.2 * MS, lambda r, s: 10 * MS, lambda r, s: 39.5 * MS if r == 0 else 40 * MS)
    return ddp(second, metrics=late)


def rank_0_computes_least(second: int) -> Snapshot:
    """The others' forward passes are longer, and rank 0 waits for them in its backward pass."""
    late = timed(
        lambda r, s: 0.2 * MS, lambda r, s: 10 * MS if r == 0 else 45 * MS, lambda r, s: 48 * MS if r == 0 else 13 * MS
    )
    return ddp(second, metrics=late)


def buffers_are_hardly_late(second: int) -> Snapshot:
    late = timed(lambda r, s: 0.2 * MS, lambda r, s: 10 * MS if r == 0 else 14 * MS, lambda r, s: 30 * MS)
    return ddp(second, metrics=late)


def rank_0_alone(second: int, gpu_s: float) -> Snapshot:
    """Rank 0 takes 35 ms longer outside of all phases; its GPU computes for this long in each step of 63 ms."""
    late = timed(lambda r, s: 0.2 * MS, lambda r, s: 10 * MS, lambda r, s: 10 * MS if r == 0 else 45 * MS)
    kernels = {"cuda/forward_s": lambda r, s: gpu_s / 3, "cuda/backward_s": lambda r, s: gpu_s * 2 / 3}
    return ddp(second, metrics={**late, **kernels})


def rank_0_draws_meanwhile(second: int) -> Snapshot:
    return rank_0_alone(second, 26 * MS)


def rank_0_reads_the_loss(second: int) -> Snapshot:
    """Rank 0 alone calls loss.item(), where it waits for its GPU; the others wait for theirs where its queue is full."""
    return rank_0_alone(second, 61 * MS)


def loss_outside_of_the_model(second: int, rank_2_tokens: float = 40_000.0) -> Snapshot:
    """Rank 2 takes 25 ms longer for a loss that no phase holds; ``rank_2_tokens``: how many it has in a second."""
    late = timed(
        lambda r, s: 0.2 * MS, lambda r, s: 12 * MS if r == 2 else 10 * MS, lambda r, s: 20 * MS if r == 2 else 45 * MS
    )
    return ddp(second, metrics={**late, "tokens_per_s": lambda r, s: rank_2_tokens if r == 2 else 18_000.0})


def loss_of_equal_work(second: int) -> Snapshot:
    return loss_outside_of_the_model(second, 18_000.0)


def rows_for_all(second: int) -> Snapshot:
    """DataParallel with 32 rows for each of its devices."""
    return faults.data_parallel(second, faults.dp_facts(64, [32, 32], second), places=(0, 1))


def one_small_last_batch(second: int) -> Snapshot:
    """One batch of an epoch in a hundred has one row."""
    return faults.data_parallel(second, faults.dp_facts(64, [32, 32], second, underused_calls=second // 10), places=(0, 1))


def a_rank_on_each_gpu(second: int) -> Snapshot:
    ranks = tuple(rank(n, use(n, 9), world=4, second=second) for n in range(4))
    return scene(second, gpus(range(4), 4), ranks, (journal(4, second),))


def one_row(second: int) -> Snapshot:
    return faults.data_parallel(second, faults.dp_facts(1, [1], second, underused_calls=10 * second), places=(0, 1))


def three_rows(second: int) -> Snapshot:
    return faults.data_parallel(second, faults.dp_facts(3, [2, 1], second, uneven_calls=10 * second), places=(0, 1))


def an_argument_that_does_not_divide(second: int) -> Snapshot:
    return faults.data_parallel(second, faults.dp_facts(8, [4, 0], second, underused_calls=10 * second), places=(0, 1))


PAIRS: tuple[Pair, ...] = (
    Pair("F04", "gradients that are averaged after backward", averaged_after_backward, jitter, 40),
    Pair("A14", "a run on its instance", one_run_on_an_instance, data_parallel_on_mig, 30),
    Pair("A15", "busy, in the default compute mode", busy_in_default_mode, exclusive, 10, verdict="devices_busy"),
    Pair("A17", "a text of a run that goes on", took_its_local_rank, local_rank_refused, 10),
    Pair("A19", "two GPUs for each rank", two_gpus_for_each_rank, doubled, 40),
    Pair("A19", "a rank on each GPU", a_rank_on_each_gpu, doubled, 40),
    Pair("B01", "rows for all", rows_for_all, one_row, 20),
    Pair("B01", "one small last batch", one_small_last_batch, one_row, 40),
    Pair("B02", "rows for all", rows_for_all, three_rows, 20),
    Pair("B05", "rows for all", rows_for_all, an_argument_that_does_not_divide, 20),
    Pair("C12", "small rows at full power", small_rows_at_full_power, divided, 90),
    Pair("C12", "large rows at little power", large_rows_at_little_power, divided, 90),
    Pair("F04", "by turns, and unfelt", by_turns_and_unfelt, jitter, 60),
    Pair("F05", "rank 0 draws, unfelt", rank_0_draws_unfelt, rank_0_draws, 60),
    Pair("F05", "rank 0 has the least to compute", rank_0_computes_least, rank_0_draws_before_it_sends_buffers, 60),
    Pair("F05", "buffers that are hardly late", buffers_are_hardly_late, rank_0_draws_before_it_sends_buffers, 60),
    Pair("F05", "a rank has longer sequences", loss_outside_of_the_model, loss_of_equal_work, 60, verdict="F03"),
    Pair("F05", "rank 0 reads the loss while its GPU computes", rank_0_reads_the_loss, rank_0_draws_meanwhile, 60),
    Pair("G02", "joined by NVLink", joined_by_nvlink, first_hangs, 150),
    Pair("G02", "counts that go on", first_of_many, first_hangs, 150),
    Pair("G05", "enough shared memory", enough_shared_memory, small_shm_for_nccl, 20),
    Pair("G05", "one process with NCCL", one_with_nccl, small_shm_for_nccl, 20),
)
LOOK_ALIKES = look_alikes(PAIRS)
