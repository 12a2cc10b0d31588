"""How the ranks divide the data: the same batches on all ranks (C05), the same order in each epoch (C06)."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.calls import wrapped_by
from gputop.doctor.facts.ddp import divides_models
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.ddp.alike import same_losses
from gputop.doctor.rules.ddp.by_hand import divides_by_hand, equal_losses, may_divide
from gputop.doctor.rules.ddp.on_purpose import settings_differ
from gputop.doctor.rules.ddp.variables import EPOCHS_LIKELY, OWN_PART, keeps_its_order, reads_everything
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.equal_losses import VALUES_MIN
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.facts.setup import Loader, Sampler
from gputop.frameworks import FRAMEWORKS
from gputop.losses import AUTOMATIC_PREFIX
from gputop.snapshot import Rank

EQUAL_STEPS_MIN = 5
"""Consecutive steps with equal batches on all ranks (docs/rules.md#c05)."""
EQUAL_LOSSES_MIN = 20
"""This many of the newest losses are equal to the last digit on all ranks of a DDP: on different batches they would differ
(our choice)."""
DISTINCT_MIN = 3
"""Fewer distinct checksums prove nothing: the images may have a black border, or the same batch may repeat."""
UNDIVIDED = ("RandomSampler", "SequentialSampler", "WeightedRandomSampler", "SubsetRandomSampler")
PLAIN_LOADERS = ("DataLoader",)
"""Accelerate, Lightning and others provide their own loader types, or insert a sampler that divides the data."""
_SAMPLER = """\
sampler = DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size={size}, sampler=sampler, shuffle=False)
for epoch in range(epochs):
    sampler.set_epoch(epoch)"""


def same_batches(evidence: Evidence, group: RankGroup) -> Judgement:
    """C05: all ranks read the same batches, or each one reads the whole data set."""
    size = tracked.world(group)
    if size < 2:
        return None
    outside = same_losses(evidence, group) or reads_everything(evidence, group, _SAMPLER) if group.run is None else None
    if outside is not None:
        return outside
    if tracked.unseen_ranks(evidence, group):
        return tracked.untracked("C05", group, "The samples that each rank reads are not visible from outside.")
    ranks = tracked.ranks_of(group)
    if not tracked.all_speak(group):
        return None
    steps = _equal_steps(ranks)
    feeds = [facts_of(rank).loader for rank in ranks]
    samplers = [facts_of(rank).sampler for rank in ranks]
    judgement = (
        Suspicion(_same(evidence, group, ranks, steps, feeds[0], samplers[0]))
        if steps
        else _undivided(group, ranks, feeds, samplers)
    )
    if judgement is None and not any(feeds):
        judgement = _same_by_losses(evidence, group, ranks)
    # Refuting the finding costs more than finding nothing, which is the case in most runs.
    meant = judgement is None or divides_models(ranks) or divides_by_hand(evidence, group) or settings_differ(evidence, group)
    return None if meant else judgement


C05 = Rule(
    id="C05",
    order=1300,
    family="ddp",
    title="All ranks read the whole data set",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("journal: batches, sampler, loader, process_group", "/proc: variables", "the run's output"),
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=(
        f"equal checksums on all ranks in {EQUAL_STEPS_MIN} consecutive steps; or a sampler that does not divide, and "
        "batches times batch size equal to the data set (likely); not if a mesh, other groups or calls that pass values on "
        "in each step divide the model, or different weights give the same loss",
        f"or, without a loader, {EQUAL_LOSSES_MIN} losses that tracking itself reads on each rank of a DDP are equal (likely)",
        f"untracked, {VALUES_MIN} losses that each rank prints equally, or variables hold a model in DDP or FSDP and a loader "
        "whose sampler does not divide (possible)",
    ),
    hides=("C12", "C11", "C06"),
    mechanism=(
        "Nothing divides the data among the ranks. With equal seeds they learn from the same batches; with "
        "different seeds an epoch costs as many passes as there are ranks."
    ),
    signature=(
        "Batches are equal on all ranks, step by step; or the sampler does not divide the data and the loader is as long "
        "as on one GPU."
    ),
    look_alike=(
        "Tensor, sequence or pipeline parallelism, where ranks must see equal data; data sets that shard "
        "themselves; a search, whose ranks train with other settings."
    ),
    fix="Use DistributedSampler(dataset) in the loader, with shuffle=False there.",
    judge=same_batches,
)


def _equal_steps(ranks: Sequence[Rank]) -> list[int]:
    """Return the newest known steps, without a gap, in which the batches of all ranks are equal."""
    first, second = (fact.recent if (fact := facts_of(rank).batches) is not None else {} for rank in ranks[:2])
    shared = first.keys() & second.keys()
    if not shared or first[max(shared)] != second[max(shared)]:
        return []  # In most runs, two ranks are enough to tell.
    recents = [fact.recent if (fact := facts_of(rank).batches) is not None else {} for rank in ranks]
    common = sorted(set(recents[0]).intersection(*recents[1:]))
    equal: list[int] = []
    for step in reversed(common):
        if len({repr(recent[step]) for recent in recents}) > 1:
            break
        equal.append(step)
    if len(equal) < EQUAL_STEPS_MIN or len({repr(recents[0][step]) for step in equal}) < DISTINCT_MIN:
        return []
    return sorted(equal)


def _same(
    evidence: Evidence, group: RankGroup, ranks: tuple[Rank, ...], steps: list[int], feed: Loader | None, used: Sampler | None
) -> Finding:
    size = tracked.world(group)
    facts = [
        Fact(
            f"{tracked.who([rank.rank for rank in ranks], size)} read the same batch in all steps "
            f"{units.count(steps[0])}-{units.count(steps[-1])}",
            len(steps),
            "journal: batches (checksums)",
        )
    ]
    name = tracked.loss_of(ranks)
    losses = equal_losses(evidence, group, ranks, name) if name is not None else 0
    if losses:
        facts.append(
            Fact(f"and had the same loss, to the last digit, in {units.count(losses)} steps", losses, f"journal: {name}")
        )
    facts += _loader_facts(feed, used)
    return tracked.about(
        group,
        "C05",
        "error",
        "possible" if may_divide(group) else "certain",
        f"{tracked.capital(tracked.who([rank.rank for rank in ranks], size))} train on the same batches",
        facts,
        f"Nothing divides the data among the ranks: each rank reads all of it in the same order, so {size} GPUs learn what "
        "one GPU would.",
        _SAMPLER.format(size=feed.batch_size if feed is not None and feed.batch_size else "..."),
        "The ranks share one replica of the model (tensor, sequence or pipeline parallelism) and must see equal data.",
    )


def _loader_facts(feed: Loader | None, used: Sampler | None) -> list[Fact]:
    facts = []
    if used is not None:
        facts.append(Fact(f"the sampler is {used.type}", used.type, "journal: sampler"))
    if feed is not None and feed.length is not None and feed.dataset_length is not None:
        text_ = (
            f"an epoch of each rank has {feed.length} batches of {feed.batch_size}; the data set has {feed.dataset_length} "
            "samples"
        )
        facts.append(Fact(text_, feed.length, "journal: loader"))
    return facts


def _undivided(
    group: RankGroup, ranks: Sequence[Rank], feeds: Sequence[Loader | None], samplers: Sequence[Sampler | None]
) -> Judgement:
    """Judge by the sampler: every rank reads the whole data set, each in its own order."""
    feed, used = feeds[0], samplers[0]
    if feed is None or used is None or any(wrapped_by(rank) is None for rank in ranks):
        return None
    if any(one is None or not _covers_dataset(one) for one in feeds):
        return None
    if any(one is None or one.type not in UNDIVIDED or (one.replicas or 1) > 1 for one in samplers):
        return None
    if len({one.dataset_length for one in feeds if one is not None}) > 1 or _brings_sampler(ranks):
        return None
    own_part = any(part in (feed.dataset or "").lower() for part in OWN_PART)
    size = tracked.world(group)
    finding = tracked.about(
        group,
        "C05",
        "warning",
        "possible" if own_part else "likely",
        f"Each of the {size} ranks reads the whole data set: an epoch costs {size} times the work",
        _loader_facts(feed, used),
        "Without a DistributedSampler, each rank draws from all of the data. With different seeds the batches differ, but an "
        f"epoch is {size} passes over the data and takes as long as on one GPU.",
        _SAMPLER.format(size=feed.batch_size or "..."),
        "Each rank's data set is already only its own part.",
    )
    return Suspicion(finding, 3.0)


def _same_by_losses(evidence: Evidence, group: RankGroup, ranks: tuple[Rank, ...]) -> Judgement:
    """Judge ranks without a loader by the losses that they run backward on: equal ones are those of the same batch.

    Only what tracking itself has read: a script may average the losses that it logs.
    """
    name = tracked.loss_of(ranks)
    if name is None or _brings_sampler(ranks) or any(wrapped_by(rank) is None for rank in ranks):
        return None
    automatic = AUTOMATIC_PREFIX + name
    if all(automatic in rank.metrics for rank in ranks):
        name = automatic
    elif any(rank.optimizer_step is not None for rank in ranks):
        return None  # the script numbers and logs its own
    steps = equal_losses(evidence, group, ranks, name)
    if steps < EQUAL_LOSSES_MIN or len(set(evidence.series(group.run_id, ranks[0].rank, name).values[-steps:])) < DISTINCT_MIN:
        return None
    size = tracked.world(group)
    finding = tracked.about(
        group,
        "C05",
        "error",
        "likely",
        f"{tracked.capital(tracked.who([rank.rank for rank in ranks], size))} draw the same batches: their losses are equal",
        [
            Fact(
                f"the losses were the same, to the last digit, in the newest {units.count(steps)} steps",
                steps,
                f"journal: {name}",
            )
        ],
        f"Each rank draws its batches by the same seed from the same data, so {size} GPUs learn what one GPU would.",
        "torch.manual_seed(seed + rank)  # each rank draws its own; or divide the data: data[rank::world_size]",
        "The ranks share one replica of the model (tensor, sequence or pipeline parallelism) and must see equal data.",
    )
    return Suspicion(finding, 3.0)


def _covers_dataset(feed: Loader) -> bool:
    if feed.type not in PLAIN_LOADERS or feed.iterable or not feed.length or not feed.batch_size or not feed.dataset_length:
        return False
    return abs(feed.length * feed.batch_size - feed.dataset_length) < feed.batch_size


def _brings_sampler(ranks: Sequence[Rank]) -> bool:
    return any(name in FRAMEWORKS and FRAMEWORKS[name].divides_data for rank in ranks for name in facts_of(rank).frameworks)


def same_order(evidence: Evidence, group: RankGroup) -> Judgement:
    """C06: a DistributedSampler shuffles every epoch in the same way because set_epoch is not called."""
    if tracked.world(group) < 2:
        return None
    if group.run is None:
        return keeps_its_order(evidence, group)
    for rank in tracked.ranks_of(group):
        used = facts_of(rank).sampler
        if used is None or "Distributed" not in used.type or used.shuffle is not True or used.set_epoch is not False:
            continue
        fact, feed = facts_of(rank).batches, facts_of(rank).loader
        begins = list(fact.epochs.items()) if fact is not None else []
        if len(begins) >= 2 and len({repr(checksum) for _, checksum in begins}) == len(begins):
            # The script reshuffles in another way: the sampler's seed, or a data set that changes.
            continue
        facts = [Fact(f"{used.type} with shuffle=True, and no call of set_epoch between epochs", False, "journal: sampler")]
        if feed is not None and feed.iterations:
            facts.append(Fact(f"the loader was iterated {feed.iterations} times", feed.iterations, "journal: loader"))
        repeated = [epoch for epoch, checksum in begins if sum(other == checksum for _, other in begins) > 1]
        if len(repeated) > 1:
            text_ = f"epochs {units.ranges(repeated)} began with the same batches"
            facts.append(Fact(text_, repeated, "journal: batches (checksums)"))
        finding = tracked.about(
            group,
            "C06",
            "warning",
            "certain",
            "Every epoch has the same order: set_epoch is not called",
            facts,
            "DistributedSampler shuffles by its seed and its epoch. Without set_epoch, the epoch stays 0 and the order "
            "stays the same.",
            "for epoch in range(epochs):\n    sampler.set_epoch(epoch)  # before the loop over the loader\n"
            "    for x, y in loader: ...",
            "The same order in each epoch is intentional.",
        )
        return Suspicion(finding)
    return None


C06 = Rule(
    id="C06",
    order=1301,
    family="ddp",
    title="set_epoch is not called",
    severities=("warning",),
    confidences=("certain", "likely", "possible"),
    needs=("journal: sampler, batches", "/proc: variables"),
    every_s=SELDOM_S,
    threshold=(
        "a DistributedSampler with shuffle=True is iterated twice without set_epoch",
        f"untracked, its epoch stays 0 while the script's own count goes on by {EPOCHS_LIKELY} (likely) or 1 (possible)",
    ),
    mechanism=(
        "DistributedSampler shuffles by its seed and its epoch. Without set_epoch, the epoch stays 0 and the order stays "
        "the same."
    ),
    signature=("A shuffling DistributedSampler is iterated twice without set_epoch, and epochs begin with the same batches."),
    look_alike="A sampler whose seed changes, or a data set that shuffles by itself.",
    fix="Call sampler.set_epoch(epoch) before each epoch.",
    judge=same_order,
)
