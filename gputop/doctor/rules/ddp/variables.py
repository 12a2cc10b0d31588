"""What the variables of untracked ranks show: a wrapper that is missing (C03), unused (C01) or off (C04), parameters that it
does not know (C02), loaders that do not divide the data (C05) or never change its order (C06), BatchNorm over few rows (C10).
Pure.

Variables show what a training holds, not what it does with it: whoever averages gradients or divides the data by hand holds the
same. So most of it is only possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.ddp.on_purpose import named_after_several
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.process import Process
from gputop.whereabouts.records import BACKWARD_MIN, HeldLoader, HeldModels, Holdings

HOLD_S = 25.0
"""Longer than the time between two looks at variables."""
THAWED_HOLD_S = 10.0
LOOKS_S, LOOKS_MIN = 120.0, 20
"""How far back no rank may have been seen in a collective, and how many looks at each that must be (our choice)."""
EPOCHS_LIKELY = 2
"""This many epochs begun without set_epoch are no accident; one may belong to a run that was resumed (our choice)."""
OWN_PART = ("subset", "shard", "split", "part", "local", "rank", "worker", "iterable", "mapped")
"""In the name of a data set that may be only a rank's own part."""
_WRAPPER = "DistributedDataParallel"


class _Rank(NamedTuple):
    member: Member
    process: Process
    held: Holdings
    models: HeldModels


def goes_unused(evidence: Evidence, group: RankGroup) -> Judgement:
    """C01 from outside: the ranks hold a model that DDP wraps, but no forward pass goes through the wrapper."""
    ranks = _training(evidence, group)
    if not ranks or any(item.models.wrapper != _WRAPPER or item.held.calls_wrapper is not False for item in ranks):
        return None
    finding = tracked.about(
        group,
        "C01",
        "error",
        "possible",
        f"DDP is bypassed: {len(ranks)} ranks may train {len(ranks)} different models",
        [
            _fact(ranks[0], "variables hold a DistributedDataParallel", _WRAPPER),
            _fact(ranks[0], "no forward pass was seen to go through it", False),
        ],
        "DDP prepares the averaging of gradients when the script calls the wrapper itself. After model.module(x) or "
        "model.module.method(x), each rank steps with its own gradients, faster and without an error.",
        "model(x)  # the wrapper, not model.module(x); call other methods through forward",
        "The script averages the gradients by hand (dist.all_reduce), so the weights stay equal.",
    )
    return Suspicion(finding, HOLD_S)


def learns_later(evidence: Evidence, group: RankGroup, fix: str) -> Judgement:
    """C02 from outside: the optimizer updates more tensors than at first, though each step uses all that DDP knows."""
    ranks = _training(evidence, group)
    counts = [(item, *item.held.updated) for item in ranks if item.held.updated is not None]
    # A rank may have been seen only after it began to update more; then it updates as many as the others.
    if not ranks or len(counts) < len(ranks) or len({now for _, _, now in counts}) > 1:
        return None
    rank, first, now = min(counts, key=lambda item: item[1])
    if now <= first:
        return None
    finding = tracked.about(
        group,
        "C02",
        "error",
        "possible",
        f"{words.count(now - first, 'tensor')} may have begun to learn after DDP wrapped the model: DDP does not average their "
        "gradients",
        [
            _fact(rank, f"the optimizer has updated {words.count(now, 'tensor')}, and {first} when it was first seen", now),
            _fact(rank, "the model is in the same DDP, without find_unused_parameters or static_graph", False),
        ],
        "DDP averages the gradients of the parameters that required some when it wrapped the model, and each step must use all "
        "of these. Each rank separately trains those that were frozen then and thawed later.",
        fix,
        "The tensors that came later belong to something that exchanges its gradients in another way.",
    )
    return Suspicion(finding, THAWED_HOLD_S)


def goes_without(evidence: Evidence, group: RankGroup, fix: str) -> Judgement:
    """C03 from outside: the ranks are connected, but hold nothing that exchanges gradients, and call nothing of that kind."""
    ranks = _training(evidence, group)
    if not ranks or any(item.models.wrapper is not None or item.held.calls_wrapper is not False for item in ranks):
        return None
    if named_after_several(group):
        return None
    looks = [evidence.doings.seen(item.process, LOOKS_S) for item in ranks]
    if min(len(seen.looks) for seen in looks) < LOOKS_MIN or any(seen.share("collective") for seen in looks):
        return None
    names = " and ".join(ranks[0].models.names)
    finding = tracked.about(
        group,
        "C03",
        "error",
        "possible",
        f"{len(ranks)} ranks may train {len(ranks)} separate models: none is wrapped",
        [
            _fact(ranks[0], f"variables hold {names}, and no wrapper", names),
            Fact(
                f"no rank was seen in a collective in {min(len(seen.looks) for seen in looks)} looks at its stack",
                0,
                "stacks",
            ),
        ],
        "Without DDP or FSDP, nothing averages the gradients of the ranks: each one trains a model of its own.",
        fix,
        "The script averages gradients or weights by hand, or the ranks train separate models on purpose.",
    )
    return Suspicion(finding, HOLD_S)


def never_exchanges(evidence: Evidence, group: RankGroup, fix: str) -> Judgement:
    """C04 from outside: DDP is under no_sync in every backward pass that was looked at."""
    ranks = _training(evidence, group)
    if not ranks or any(item.held.exchanges is not False for item in ranks):
        return None
    finding = tracked.about(
        group,
        "C04",
        "error",
        "possible",
        "DDP may always be under no_sync: the ranks drift apart",
        [_fact(ranks[0], f"DDP was under no_sync in all of {BACKWARD_MIN} or more looks at backward passes", False)],
        "Under no_sync, DDP does not average gradients. The backward pass before optimizer.step() must be outside no_sync; "
        "here the script may never leave it.",
        fix,
        "A step has very many micro-batches, or the script averages the weights by hand from time to time (local SGD).",
    )
    return Suspicion(finding)


def reads_everything(evidence: Evidence, group: RankGroup, fix: str) -> Judgement:
    """C05 from outside: DDP averages the gradients, but the loaders of all ranks draw from a whole data set."""
    ranks = _training(evidence, group)
    loaders = _loaders(ranks)
    if not loaders or not all(item.models.replicates for item in ranks):
        return None
    if not all(loader.is_plain for loader in loaders) or any(part in loaders[0].dataset.lower() for part in OWN_PART):
        return None
    first, size = loaders[0], len(ranks)
    finding = tracked.about(
        group,
        "C05",
        "warning",
        "possible",
        f"Each of the {size} ranks may read the whole data set: an epoch costs {size} times the work",
        [_fact(ranks[0], f"{first.name} draws from a {first.dataset} with a {first.sampler}", first.sampler)],
        "Without a DistributedSampler, each rank draws from all of its data set. With different seeds the batches differ, "
        f"but an epoch is {size} passes over the data; with equal seeds, all ranks learn from the same batches.",
        fix.format(size=first.batch_size or "..."),
        "Each rank's data set is already only its own part.",
    )
    return Suspicion(finding, HOLD_S)


def keeps_its_order(evidence: Evidence, group: RankGroup) -> Judgement:
    """C06 from outside: epochs begin, and a shuffling DistributedSampler is still at epoch 0."""
    for item in _training(evidence, group):
        loader, begun = item.held.loader, evidence.held.epochs_begun(item.process)
        if loader is None or (loader.replicas or 1) < 2 or not loader.shuffles or loader.sampler_epoch != 0 or begun < 1:
            continue
        finding = tracked.about(
            group,
            "C06",
            "warning",
            "likely" if begun >= EPOCHS_LIKELY else "possible",
            "Every epoch has the same order: set_epoch is not called",
            [
                _fact(item, f"the {loader.sampler} of {loader.name} shuffles, and is at epoch 0", 0),
                _fact(
                    item,
                    f"the script is at epoch {item.held.epoch}: {words.count(begun, 'epoch')} later than first seen",
                    begun,
                ),
            ],
            "DistributedSampler shuffles by its seed and its epoch. Without set_epoch, the epoch stays 0 and the order "
            "stays the same.",
            "for epoch in range(epochs):\n    sampler.set_epoch(epoch)  # before the loop over the loader\n"
            "    for x, y in loader: ...",
            "The same order in each epoch is intentional, or the data set shuffles by itself.",
        )
        return Suspicion(finding)
    return None


class Few(NamedTuple):
    """BatchNorm layers that normalize over the rows of one rank."""

    layers: int
    rows: int
    source: str


def few_rows(evidence: Evidence, group: RankGroup) -> Few | None:
    """Return C10's evidence from outside; None if it cannot be seen."""
    ranks = _training(evidence, group)
    loaders = _loaders(ranks)
    if not loaders or not all(item.models.replicates for item in ranks) or not ranks[0].models.batch_norms:
        return None
    rows = loaders[0].batch_size
    return None if rows is None else Few(ranks[0].models.batch_norms, rows, _source(ranks[0]))


def _training(evidence: Evidence, group: RankGroup) -> Sequence[_Rank]:
    """Return the ranks of an untracked run with what they hold; nothing unless all of two or more are seen to train."""
    if group.run is not None or len(group.members) != tracked.world(group) or len(group.members) < 2:
        return ()
    found = [
        _Rank(member, process, process.held, process.held.models)
        for member in group.members
        if (process := member.process) is not None and process.held is not None and process.held.models is not None
    ]
    return found if len(found) == len(group.members) and evidence.trains(group) else ()


def _loaders(ranks: Sequence[_Rank]) -> Sequence[HeldLoader]:
    """Return the training loader of each rank; nothing unless all show one."""
    found = [item.held.loader for item in ranks if item.held.loader is not None]
    return found if len(found) == len(ranks) else ()


def _source(item: _Rank) -> str:
    return f"/proc/{item.process.pid}/mem"


def _fact(item: _Rank, text: str, value: object) -> Fact:
    return Fact(text, value, _source(item))
