"""What follows from the facts of ranks that train together: who waits, who exchanges, and whose weights are equal.

Facts are read without trust. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from gputop.doctor.facts.stated import facts_of, read_once
from gputop.facts.parallel import Ddp, ProcessGroup
from gputop.facts.standing import Stalled
from gputop.frameworks import FRAMEWORKS
from gputop.snapshot import Rank

DATA_DIMENSIONS = frozenset(
    {"dp", "ddp", "data", "data_parallel", "fsdp", "hsdp", "dp_shard", "dp_replicate", "replicate", "shard", "batch"}
)
"""Names of mesh dimensions along which every rank gets different data; along all others ("tp", "sp", "cp", "pp") it may not."""
_ENGINES = frozenset(name for name, known in FRAMEWORKS.items() if known.averages_gradients)
SUM_TOLERANCE = 1e-6
"""Weights that differ by less than this share of their sum differ by rounding (unequal GPUs), not because the ranks drifted
apart.
"""
ITERATIONS_MIN = 20
"""DDP's averages include the first iterations, which set everything up."""
LOGS_AFTER_S = 1.0
"""What is logged within this time after a step belongs to it."""
LOGS_SHARE = 1 / 3
"""A run logs on if it has been silent for less than this share of the time without a step (our choice)."""
OFTEN = 0.8
"""Gradients are averaged in every step if there are this many calls of all_reduce per step: the first steps may have none."""
_TELLS_NOTHING = ("barrier", "object", "broadcast", "scatter_object", "monitored")


def waiting_s(ddp: Ddp) -> float | None:
    """Return the exposed communication time of a backward pass (not hidden by computation), in seconds."""
    if ddp.communication_s is None or ddp.overlap_s is None:
        return None
    return max(0.0, ddp.communication_s - ddp.overlap_s)


def communication_share(rank: Rank, step_s: float | None) -> float | None:
    """Return the exposed communication time of a rank as a share of its step; None if DDP has not counted it long enough."""
    fact = facts_of(rank).ddp
    waiting = waiting_s(fact) if fact is not None else None
    if fact is None or waiting is None or (fact.iteration or 0) < ITERATIONS_MIN or not step_s:
        return None
    done = facts_of(rank).gradients
    accumulation = max(1.0, (done.accumulation or 1.0) if done is not None else 1.0)
    synced = min(1.0, done.synced_backwards / done.backwards) if done is not None and done.backwards else 1.0
    return waiting * accumulation * synced / step_s


def exchanges(group: ProcessGroup) -> int:
    """Return the calls that may average gradients or weights: barriers, broadcasts and objects do not count."""
    return sum(count for name, count in group.collectives.items() if not any(part in name for part in _TELLS_NOTHING))


def passes_weights(rank: Rank) -> bool:
    """Return whether the script passed on tensors as large as the largest trained parameter: gradients or weights.

    Averaged metrics and gathered features are small.
    """
    facts = facts_of(rank)
    model, group = facts.model, facts.process_group
    if model is None or group is None or not model.largest_parameter or group.largest is None:
        return False
    return group.largest >= model.largest_parameter


def called(rank: Rank | None) -> Mapping[int, tuple[int, int]]:
    """Return the (rows, elements) with which DDP was called in each of the last sampled steps."""
    batches = facts_of(rank).batches
    return batches.called if batches is not None else {}


def stall(rank: Rank | None) -> Stalled | None:
    """Return the fact ``stalled``; None while steps complete, or if the last one was recent."""
    found = standstill(rank)
    return None if found is None or found.early else found


@read_once
def standstill(rank: Rank | None) -> Stalled | None:
    """Return the fact ``stalled``, even if it is only an early report."""
    fact = facts_of(rank).stalled
    if rank is None or fact is None:
        return None
    # A script may number its steps from 1 instead of 0, so a higher step alone does not show that the run continued.
    logged = fact.at is None or rank.stepped_at is None or rank.stepped_at > fact.at
    went_on = fact.step is not None and rank.steps_taken is not None and rank.steps_taken > fact.step and logged
    return None if went_on or logs_go_on((rank,), fact) else fact


def logs_go_on(ranks: Iterable[Rank], stalled: Stalled) -> bool:
    """Return whether ranks have logged steps since the last one that automatic tracking saw: then they train without it.

    What a script logs once after a step, such as the result of an evaluation, does not count for long.
    """
    if stalled.since is None or stalled.at is None:
        return False
    last = max((rank.stepped_at for rank in ranks if rank.stepped_at is not None), default=-math.inf)
    return last > stalled.since + LOGS_AFTER_S and stalled.at - last < LOGS_SHARE * (stalled.at - stalled.since)


def divides_models(ranks: Iterable[Rank]) -> bool:
    """True if ranks may rightly see equal batches or hold different weights: tensor, sequence or pipeline parallelism."""
    for rank in ranks:
        facts = facts_of(rank)
        group, model = facts.process_group, facts.model
        names = {*(model.mesh if model is not None else ()), *(group.mesh if group is not None else ())}
        if names:
            if names - DATA_DIMENSIONS:
                return True
            continue
        if (group is not None and (group.groups or 0) > 1) or "megatron" in facts.frameworks:
            return True
    return False


def has_engine(ranks: Iterable[Rank]) -> bool:
    """True if a framework that averages gradients with its own calls is loaded."""
    return any(_ENGINES & set(facts_of(rank).frameworks) for rank in ranks)


def averages_by_hand(ranks: Sequence[Rank]) -> bool:
    """Return whether each rank holds the same whole model and passes on gradients in every step, without a wrapper."""
    for rank in ranks:
        group = facts_of(rank).process_group
        if group is None or not rank.steps_taken or not passes_weights(rank):
            return False
        if group.collectives.get("all_reduce", 0) < OFTEN * rank.steps_taken:
            return False
    differ = weights_differ(ranks, 1)
    return differ is not None and not differ[1] and not divides_models(ranks)


def weights_met(ranks: Sequence[Rank], from_step: int) -> bool:
    """Return whether the ranks reported equal weights at any step, which means that the script sometimes averages them."""
    probes = [fact.recent if (fact := facts_of(rank).parameters) is not None else {} for rank in ranks]
    common = [step for step in set(probes[0]).intersection(*probes[1:]) if step >= from_step] if len(probes) > 1 else []
    for step in common:
        checksums = {repr(probe[step][0]) for probe in probes}
        if len(checksums) == 1 and probes[0][step][0] is not None:
            return True
    return False


def weights_differ(ranks: Sequence[Rank], from_step: int = 0) -> tuple[int, bool] | None:
    """Return the newest step at which all ranks reported their weights, and whether these differ; None if unknown.

    For ranks that each hold the whole model. Checksums that differ only by rounding count as equal.
    """
    probes = [fact.recent if (fact := facts_of(rank).parameters) is not None else {} for rank in ranks]
    if len(probes) < 2:
        return None
    common = [step for step in set(probes[0]).intersection(*probes[1:]) if step >= from_step]
    if not common:
        return None
    step = max(common)
    values = [probe[step] for probe in probes]
    checksums = [checksum for checksum, _ in values]
    if None not in checksums and len({repr(checksum) for checksum in checksums}) == 1:
        return step, False
    # On a GPU there is no checksum, because reading the values would wait for the device: only the sum arrives, later.
    sums = [value for _, value in values if value is not None]
    if len(sums) < len(values):
        return (step, True) if None not in checksums else None
    return step, max(sums) - min(sums) > SUM_TOLERANCE * max(1.0, *map(abs, sums))
