"""Rows per GPU in a DDP run: too few for BatchNorm (C10), too few to keep a GPU busy (C12)."""

from __future__ import annotations

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.calls import model_class, wrapped_by
from gputop.doctor.facts.ddp import divides_models
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.ddp.variables import Few, few_rows
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.snapshot import Rank

ROWS_LIKELY = 4
ROWS_POSSIBLE = 8
"""Rows per GPU below which BatchNorm's statistics are poor (docs/rules.md#c10)."""
SMALL_ROWS = 32
POWER_SHARE_MAX = 0.35
"""Power draw, as a fraction of the limit, below which a GPU has too little work (docs/rules.md#c12, an estimate)."""


def statistics_of_few(evidence: Evidence, group: RankGroup) -> Judgement:
    """C10: BatchNorm computes its statistics over the few rows of one rank."""
    if tracked.world(group) < 2:
        return None
    few = few_rows(evidence, group) if group.run is None else _few_rows(group)
    if few is None or few.layers <= 0 or not 0 < few.rows <= ROWS_POSSIBLE:
        return None
    rows = few.rows
    each = words.count(rows, "row")
    finding = tracked.about(
        group,
        "C10",
        "info",
        "likely" if rows <= ROWS_LIKELY else "possible",
        f"BatchNorm sees only {each} on each GPU",
        [
            Fact(f"{words.count(few.layers, 'BatchNorm layer')} not synced", few.layers, few.source),
            Fact(f"{each} per rank", rows, few.source),
        ],
        "Under DDP, each rank normalizes over its own rows, and DDP keeps the running statistics of rank 0. Over few rows "
        "they are noisy, and the model gets worse than on one GPU with the whole batch.",
        "model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # before DDP(model)\n# or GroupNorm, or more rows per GPU",
        "The layers are in eval mode.",
    )
    return Suspicion(finding)


def _few_rows(group: RankGroup) -> Few | None:
    ranks = [rank for rank in tracked.ranks_of(group) if wrapped_by(rank) == "ddp"]
    if not ranks or divides_models(ranks):
        return None
    model = facts_of(ranks[0]).model
    norm = model.batch_norm if model is not None else None
    feed, seen = facts_of(ranks[0]).loader, facts_of(ranks[0]).batches
    rows = feed.batch_size if feed is not None and feed.batch_size else seen.rows if seen is not None else None
    if norm is None or rows is None:
        return None
    return Few(norm.layers - (norm.synced or 0) - (norm.frozen or 0), rows, "journal: model, loader")


C10 = Rule(
    id="C10",
    order=1701,
    family="ddp",
    title="BatchNorm over few rows",
    severities=("info",),
    confidences=("likely", "possible"),
    needs=("journal: model, loader, else /proc: variables",),
    every_s=SELDOM_S,
    threshold=(
        f"BatchNorm that is neither synced nor frozen, with up to {ROWS_LIKELY} rows per rank (likely) or {ROWS_POSSIBLE} "
        "(possible)"
    ),
    estimated=True,
    mechanism=(
        "Under DDP, each rank normalizes over its own rows, and DDP keeps the running statistics of rank 0. Over few rows "
        "they are noisy."
    ),
    signature="BatchNorm layers that are neither synced nor frozen, with 8 rows or fewer on each GPU.",
    look_alike="Layers in eval mode; GroupNorm and LayerNorm, which do not depend on the batch.",
    fix="Convert with nn.SyncBatchNorm.convert_sync_batchnorm(model) before DDP, or use GroupNorm.",
    judge=statistics_of_few,
)


def batch_became_small(evidence: Evidence, group: RankGroup) -> Judgement:
    """C12: the batch was divided among the ranks instead of multiplied, so each GPU has too little work."""
    size = tracked.world(group)
    ranks = [rank for rank in tracked.ranks_of(group) if wrapped_by(rank) in ("ddp", "sharded")]
    if size < 2 or not ranks or group.virtual:
        return None
    feed, seen = facts_of(ranks[0]).loader, facts_of(ranks[0]).batches
    rows = feed.batch_size if feed is not None and feed.batch_size else seen.rows if seen is not None else None
    powers = [power for uuid in group.used if (power := windows.power_share_at_most(evidence, uuid)) is not None]
    if not rows or (feed is not None and feed.iterable) or seen is None or not powers or len(powers) < len(group.used):
        return None
    mean = sum(powers) / len(powers)
    if mean >= POWER_SHARE_MAX:
        return None
    alone = _rows_alone(evidence, ranks[0])
    halved = alone is not None and rows <= alone / 2
    if not (halved or rows <= SMALL_ROWS):
        return None
    facts = [
        Fact(f"{words.count(rows, 'row')} on each of {size} GPUs, {rows * size} in total", rows, "journal: loader"),
        Fact(f"the GPUs draw {mean:.0%} of their power limit", mean, "NVML"),
    ]
    if halved and alone is not None:
        facts.append(Fact(f"a batch of a run on one GPU had {words.count(alone, 'row')}", alone, "that run's journal"))
    target = alone if halved and alone is not None else rows * 4
    finding = tracked.about(
        group,
        "C12",
        "info",
        "possible",
        f"{words.count(rows, 'row')} per GPU is too little work: more GPUs do not make the run faster",
        facts,
        "A fixed batch divided among more GPUs gives each GPU less to do, while the fixed cost of a step stays the same.",
        f"loader = DataLoader(dataset, batch_size={target}, ...)  # per rank; {target * size} in total\n"
        f"lr = lr * {target / rows:g}  # linear scaling with the batch, with a warm-up",
        "The global batch size must stay the same for the sake of the result.",
    )
    return Suspicion(finding, 10.0)


C12 = Rule(
    id="C12",
    order=1703,
    family="ddp",
    title="The batch on each GPU is small",
    severities=("info",),
    confidences=("possible",),
    needs=("journal: loader, batches", "NVML power"),
    window_s=windows.POWER_SPAN_MIN_S,
    every_s=SELDOM_S,
    threshold=(
        f"up to {SMALL_ROWS} rows per rank, or half of the rows of the run on one GPU, and power below "
        f"{POWER_SHARE_MAX:.0%} of the limit"
    ),
    estimated=True,
    mechanism=(
        "A fixed batch divided among more GPUs gives each GPU less to do, while the fixed cost of a step stays the same."
    ),
    signature="Few rows on each GPU, or half of the rows of the run on one GPU, and low power draw.",
    look_alike="E02 (a single GPU has too little to do); a global batch size that must stay the same.",
    fix="Keep the batch size per GPU, and scale the learning rate, with a warm-up.",
    judge=batch_became_small,
)


def _rows_alone(evidence: Evidence, rank: Rank) -> int | None:
    """Return the rows per batch of the newest listed single-GPU run of the same model."""
    name = model_class(rank)
    runs = evidence.snapshot.runs if evidence.snapshot is not None else ()
    for run in sorted(runs, key=lambda run: -(run.created_at or 0)):
        other = run.ranks[0] if len(run.ranks) == 1 and (run.world_size or 1) == 1 else None
        seen = facts_of(other).batches
        if other is not None and seen is not None and seen.rows and name is not None and model_class(other) == name:
            return seen.rows
    return None
