"""Ranks with unequal numbers of batches (C07)."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.calls import wrapped_by
from gputop.doctor.facts.ddp import divides_models, stall
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.snapshot import Rank, Run


def uneven_inputs(evidence: Evidence, group: RankGroup) -> Judgement:
    """C07: the ranks have unequal numbers of batches: those with more wait forever at the end of the epoch."""
    run = group.run
    if run is None or tracked.world(group) < 2:
        return None
    found = _uneven(group, run)
    return None if found is None or divides_models(run.ranks) or any(map(_joins, run.ranks)) else found


C07 = Rule(
    id="C07",
    order=1302,
    family="ddp",
    title="Ranks have unequal numbers of batches",
    severities=("error",),
    confidences=("certain", "likely"),
    needs=("journal: loader, stalled, ddp",),
    window_s=3.0,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        "the loaders' lengths differ in the first epoch (likely), or ranks wait after another rank has run out of data; not if "
        "DDP runs within Join"
    ),
    hides=("G01", "G03", "G04", "C08", "F01", "F03"),
    mechanism=(
        "Each step averages gradients over all ranks. A rank that has batches left waits forever for ranks that have none."
    ),
    signature=(
        "The lengths of the loaders differ; later, ranks wait in the backward pass for a rank that has run out of data."
    ),
    look_alike="Loops with a fixed number of steps, or inside Join; a rank that stopped because of an error (G04).",
    fix="Use drop_last=True or a sampler that pads, agree on the smallest number of steps, or use Join.",
    judge=uneven_inputs,
)


def _joins(rank: Rank) -> bool:
    fact = facts_of(rank).ddp
    return fact is not None and bool(fact.joins)


def _uneven(group: RankGroup, run: Run) -> Suspicion | None:
    waiting = [rank for rank in tracked.ranks_of(group) if stall(rank) is not None]
    done = [
        rank
        for rank in run.ranks
        if waiting and (feed := facts_of(rank).loader) is not None and feed.exhausted and rank not in waiting
    ]
    done = [rank for rank in done if all((rank.steps_taken or 0) < (other.steps_taken or 0) + 2 for other in waiting)]
    if waiting and done and all(not (f.exhausted if (f := facts_of(rank).loader) is not None else True) for rank in waiting):
        return Suspicion(_hangs(group, waiting, done))
    ranks = tracked.ranks_of(group)
    if not tracked.all_speak(group) or any(wrapped_by(rank) is None for rank in ranks):
        return None
    feeds = [facts_of(rank).loader for rank in ranks]
    known = [feed.length for feed in feeds if feed is not None and feed.length is not None]
    if len(known) < len(ranks) or min(known) == max(known):
        return None
    if any(feed is not None and (feed.iterations or 0) > 1 for feed in feeds):
        # An epoch ended without a hang: the script uses Join, or a fixed number of steps.
        return None
    return Suspicion(_will_hang(group, ranks, known), 3.0)


_EVEN = """\
DistributedSampler(dataset, drop_last=True)  # the same number of batches on each rank
# where the data decides the length (packing, filters, iterable data sets), stop together:
steps = torch.tensor(len(loader), device=device); dist.all_reduce(steps, dist.ReduceOp.MIN)
# or, for DDP alone:
with Join([model]): ...  # from torch.distributed.algorithms.join"""


def _hangs(group: RankGroup, waiting: Sequence[Rank], done: Sequence[Rank]) -> Finding:
    out = tracked.who([rank.rank for rank in done], tracked.world(group))
    facts = [Fact(f"{out} reached the end of the data", [rank.rank for rank in done], "journal: loader")]
    for rank in waiting[:3]:
        where = stall(rank)
        if where is not None:
            frame = f" in {where.stack[0]}" if where.stack else ""
            facts.append(
                Fact(f"rank {rank.rank} has waited since step {units.count(where.step)}{frame}", where.step, "journal: stalled")
            )
    feeds = {rank.rank: facts_of(rank).loader for rank in (*done, *waiting)}
    lengths = {rank: feed.length for rank, feed in feeds.items() if feed is not None and feed.length}
    if len(set(lengths.values())) > 1:
        facts.append(Fact(f"batches per epoch by rank: {lengths}", lengths, "journal: loader"))
    return tracked.about(
        group,
        "C07",
        "error",
        "certain",
        f"{tracked.capital(out)} ran out of data; the others wait for {'it' if len(done) == 1 else 'them'} forever",
        facts,
        "The ranks have unequal numbers of batches. A rank with one more batch waits, when it next averages gradients, for "
        "ranks that have left the loop.",
        _EVEN,
        "A rank left its loop because of an error or a break, not because its data ended.",
        pids=[rank.pid for rank in (*done, *waiting) if rank.pid is not None],
    )


def _will_hang(group: RankGroup, ranks: Sequence[Rank], lengths: Sequence[int]) -> Finding:
    least, most = min(lengths), max(lengths)
    short = [rank.rank for rank, length in zip(ranks, lengths, strict=True) if length == least]
    shown = " / ".join(str(length) for length in lengths[:16])
    return tracked.about(
        group,
        "C07",
        "error",
        "likely",
        f"Unequal numbers of batches, {least} to {most}: the run will hang at the end of the epoch",
        [
            Fact(f"batches per epoch, rank by rank: {shown}", list(lengths), "journal: loader"),
            Fact(f"{tracked.who(short, tracked.world(group))} will finish first", short, "journal: loader"),
        ],
        "Each step averages gradients over all ranks. Ranks that still have batches wait forever for a rank that has none.",
        _EVEN,
        "The loop ends after a fixed number of steps, or runs within Join.",
    )
