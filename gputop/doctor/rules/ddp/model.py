"""The model of a DDP run: BatchNorm over few rows (C10), a loss that hides other ranks (C11), a batch that became small
(C12), gradients that pass through the CPU (C16)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import stated
from gputop.doctor.facts.calls import model_class, wrapped_by
from gputop.doctor.facts.ddp import divides_models
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.snapshot import Rank

LOSS_STEPS = 20
LOSS_DEVIATION = 6.0
"""In standard deviations of the other ranks (docs/rules.md#c11)."""
NAN_STEPS_MIN = 3
ROWS_LIKELY = 4
ROWS_POSSIBLE = 8
"""Rows per GPU below which BatchNorm's statistics are poor (docs/rules.md#c10)."""
SMALL_ROWS = 32
POWER_SHARE_MAX = 0.35
"""Power draw, as a fraction of the limit, below which a GPU has too little work (docs/rules.md#c12, an estimate)."""
C16_HOLD_S = 10.0


def statistics_of_few(evidence: Evidence, group: RankGroup) -> Judgement:
    """C10: BatchNorm computes its statistics over the few rows of one rank."""
    if tracked.world(group) < 2:
        return None
    ranks = [rank for rank in tracked.ranks_of(group) if wrapped_by(rank) == "ddp"]
    if not ranks or divides_models(ranks):
        return None
    model = facts_of(ranks[0]).model
    norm = model.batch_norm if model is not None else None
    unsynced = norm.layers - (norm.synced or 0) - (norm.frozen or 0) if norm is not None else 0
    feed, seen = facts_of(ranks[0]).loader, facts_of(ranks[0]).batches
    rows = feed.batch_size if feed is not None and feed.batch_size else seen.rows if seen is not None else None
    if norm is None or unsynced <= 0 or rows is None or not 0 < rows <= ROWS_POSSIBLE:
        return None
    each = words.count(rows, "row")
    finding = tracked.about(
        group,
        "C10",
        "info",
        "likely" if rows <= ROWS_LIKELY else "possible",
        f"BatchNorm sees only {each} on each GPU",
        [
            Fact(f"{words.count(unsynced, 'BatchNorm layer')} not synced", norm.layers, "journal"),
            Fact(f"{each} per rank", rows, "journal: loader"),
        ],
        "Under DDP, each rank normalizes over its own rows, and DDP keeps the running statistics of rank 0. Over few rows "
        "they are noisy, and the model gets worse than on one GPU with the whole batch.",
        "model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # before DDP(model)\n# or GroupNorm, or more rows per GPU",
        "The layers are in eval mode.",
    )
    return Suspicion(finding)


C10 = Rule(
    id="C10",
    order=1701,
    family="ddp",
    title="BatchNorm over few rows",
    severities=("info",),
    confidences=("likely", "possible"),
    needs=("journal: model, loader",),
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


def hidden_losses(evidence: Evidence, group: RankGroup) -> Judgement:
    """C11: another rank's loss is NaN or far off, and rank 0's loss does not show it."""
    ranks = tracked.ranks_of(group)
    if tracked.world(group) < 2 or len(ranks) < 2 or divides_models(ranks):
        return None
    name = tracked.loss_of(ranks)
    if name is None:
        return None
    series = {rank.rank: evidence.series(group.run_id, rank.rank, name) for rank in ranks}
    newest = {number: (points.steps[-60:], points.values[-60:]) for number, points in series.items()}
    if _are_alike(newest):
        return None
    losses = {number: dict(zip(steps, values, strict=True)) for number, (steps, values) in newest.items()}
    if not losses.get(0):
        return None
    for number, values in losses.items():
        if math.isfinite(sum(values.values())):
            continue
        steps = sorted(step for step in values.keys() & losses[0].keys())[-LOSS_STEPS:]
        lost = [step for step in steps[-NAN_STEPS_MIN:] if not math.isfinite(values[step]) and math.isfinite(losses[0][step])]
        if number and len(lost) >= NAN_STEPS_MIN:
            return Suspicion(_nan_finding(group, name, number, lost, losses[0][lost[-1]]))
    return _deviates(group, name, losses)


C11 = Rule(
    id="C11",
    order=1702,
    family="ddp",
    title="Rank 0's loss hides that of another rank",
    severities=("error", "info"),
    confidences=("certain", "possible"),
    needs=("journal: loss of each rank",),
    every_s=SELDOM_S,
    threshold=(
        f"not finite at {NAN_STEPS_MIN} steps where rank 0's loss is finite; or {LOSS_DEVIATION:.0f} standard deviations "
        f"off over {LOSS_STEPS} steps (possible)"
    ),
    hides=("J01",),
    hides_if=lambda finding: finding.severity == "error",
    hides_when="a loss is not finite",
    mechanism=("Scripts usually log the loss of one rank. NaN on another rank spoils the averaged gradients for all."),
    signature="A rank's loss is not finite, or far from the others, while rank 0's loss looks normal.",
    look_alike="Steps that a gradient scaler skips on all ranks; ranks with different kinds of data on purpose.",
    fix="Log the mean over the ranks (all_reduce), and check for finite losses on every rank.",
    judge=hidden_losses,
)


_REDUCE = """\
mean = loss.detach().clone()
dist.all_reduce(mean, op=dist.ReduceOp.AVG)  # print and plot this; with gloo: SUM, divided by the world size"""


def _nan_finding(group: RankGroup, name: str, number: int, steps: Sequence[int], shown: float) -> Finding:
    return tracked.about(
        group,
        "C11",
        "error",
        "certain",
        f"The loss of rank {number} is not finite, and rank 0 does not show it",
        [
            Fact(f"rank {number}: NaN or infinite at steps {units.ranges(steps)}", list(steps), f"journal: {name}"),
            Fact(f"rank 0 at step {steps[-1]}: {shown:.4g}", shown, f"journal: {name}"),
        ],
        "The script logs the loss of one rank. The gradients of another rank spoil the average for all.",
        f"{_REDUCE}\nassert torch.isfinite(loss), batch  # on every rank, to find the sample",
        "All ranks skip the steps with NaN on purpose (a gradient scaler).",
        pids=[rank.pid for rank in tracked.ranks_of(group) if rank.rank == number and rank.pid is not None],
    )


def _deviates(group: RankGroup, name: str, losses: dict[int, dict[int, float]]) -> Judgement:
    common = set.intersection(*(set(values) for values in losses.values()))
    if not all(math.isfinite(sum(values.values())) for values in losses.values()):
        common = {step for step in common if all(math.isfinite(values[step]) for values in losses.values())}
    steps = sorted(common)[-LOSS_STEPS:]
    if len(steps) < LOSS_STEPS:
        return None
    far = _far({number: [values[step] for step in steps] for number, values in losses.items()})
    for number, values in losses.items():
        if number not in far:
            continue
        others = [other for rank, other in losses.items() if rank != number]
        if number == 0 or not others:
            continue
        gap = units.mean([values[step] - units.mean([other[step] for other in others]) for step in steps])
        usual = [other[step] for other in others for step in steps]
        spread = windows.spread(usual)
        if spread > 0 and abs(gap) > LOSS_DEVIATION * spread:
            finding = tracked.about(
                group,
                "C11",
                "info",
                "possible",
                f"The loss of rank {number} is far from the other ranks' losses",
                [
                    Fact(
                        f"rank {number} lies {gap:+.3g} from the mean of the others over {len(steps)} steps, "
                        f"{abs(gap) / spread:.1f} of their standard deviations",
                        gap,
                        f"journal: {name}",
                    )
                ],
                "Its data or its weights differ from those of the other ranks. Scripts usually log only rank 0.",
                _REDUCE,
                "The ranks get different kinds of data on purpose.",
                pids=[rank.pid for rank in tracked.ranks_of(group) if rank.rank == number and rank.pid is not None],
            )
            return Suspicion(finding)
    return None


def _are_alike(newest: Mapping[int, tuple[Sequence[int], Sequence[float]]]) -> bool:
    """Return whether the losses are finite, from the same steps, and none far from the others, as in most runs."""
    first, _ = next(iter(newest.values()))
    if len(first) < LOSS_STEPS or first[-1] - first[0] != len(first) - 1 or first != sorted(set(first)):
        return False
    if any(steps != first or not math.isfinite(sum(values)) for steps, values in newest.values()):
        return False
    return not _far({number: values[-LOSS_STEPS:] for number, (_, values) in newest.items()})


def _far(columns: Mapping[int, Sequence[float]]) -> list[int]:
    """Return the ranks whose loss may be far from the others', by per-rank sums. In most runs the sums rule out all ranks."""
    size = len(next(iter(columns.values())))
    means = {rank: units.mean(values) for rank, values in columns.items()}
    squares = {rank: windows.squares(values, means[rank]) for rank, values in columns.items()}
    far = []
    for rank, mean in means.items():
        others = [other for other in means if other != rank]
        middle = units.mean([means[other] for other in others]) if others else 0.0
        between = windows.squares((means[other] for other in others), middle)
        variance = (sum(squares[other] for other in others) + size * between) / max(1, size * len(others))
        # These sums round in another order than the exact check, so half of the threshold makes sure to miss nothing.
        if abs(mean - middle) > LOSS_DEVIATION / 2 * math.sqrt(variance) or variance <= 0:
            far.append(rank)
    return far


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
    alone = _rows_alone(evidence, group, ranks[0])
    halved = alone is not None and rows <= alone / 2
    if not (halved or rows <= SMALL_ROWS):
        return None
    facts = [
        Fact(f"{words.count(rows, 'row')} on each of {size} GPUs, {rows * size} in total", rows, "journal: loader"),
        Fact(f"the GPUs draw {mean:.0%} of their power limit", mean, "NVML"),
    ]
    if halved and alone is not None:
        facts.append(Fact(f"a run on one GPU had a batch of {words.count(alone, 'row')}", alone, "that run's journal"))
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


def _rows_alone(evidence: Evidence, group: RankGroup, rank: Rank) -> int | None:
    """Return the rows per batch of the newest listed single-GPU run of the same model."""
    name = model_class(rank)
    runs = evidence.snapshot.runs if evidence.snapshot is not None else ()
    for run in sorted(runs, key=lambda run: -(run.created_at or 0)):
        other = run.ranks[0] if len(run.ranks) == 1 and (run.world_size or 1) == 1 else None
        seen = facts_of(other).batches
        if other is not None and seen is not None and seen.rows and name is not None and model_class(other) == name:
            return seen.rows
    return None


def gloo_on_gpus(evidence: Evidence, group: RankGroup) -> Judgement:
    """C16: gradients on GPUs travel through gloo, that is, through host memory."""
    size = tracked.world(group)
    if size < 2 or group.virtual or not group.used:
        return None
    ranks = tracked.ranks_of(group)
    backends = {backend for rank in ranks if (backend := _backend(rank)) is not None}
    on_gpu = [rank for rank in ranks if (stated.parameter_device(rank) or "").startswith("cuda")]
    if backends == {"gloo"} and on_gpu:
        facts = [
            Fact("the process group's backend is gloo", "gloo", "journal: ddp, process_group"),
            Fact(f"parameters are on {stated.parameter_device(on_gpu[0])}", None, "journal: model"),
        ]
        return Suspicion(_gloo_finding(group, facts, "certain"))
    if backends or len(group.members) < 2 or not evidence.trains(group):
        return None
    names = [{name for name, _ in m.process.threads} if m.process is not None else set() for m in group.members]
    if not all("pt_gloo_runloop" in one for one in names) or any(_speaks_nccl(one) for one in names):
        return None
    text = "pt_gloo_runloop threads on every rank, and no NCCL threads"
    return Suspicion(_gloo_finding(group, [Fact(text, None, "/proc/<pid>/task")], "likely"), C16_HOLD_S)


C16 = Rule(
    id="C16",
    order=1700,
    family="ddp",
    title="Gradients travel through gloo",
    severities=("warning",),
    confidences=("certain", "likely"),
    needs=("journal: ddp, process_group, model", "thread names"),
    window_s=C16_HOLD_S,
    every_s=SELDOM_S,
    threshold=("parameters on CUDA and backend gloo; from outside, gloo threads on every rank and no NCCL threads (likely)"),
    hides=("E06",),
    mechanism=("gloo copies every gradient from the GPU to host memory and back. NCCL moves them from GPU to GPU."),
    signature=(
        "The parameters are on GPUs and the backend is gloo; from outside, every rank has gloo threads and no NCCL threads."
    ),
    look_alike='The backend "cpu:gloo,cuda:nccl", which has both; ranks that share one GPU on purpose.',
    fix='Use init_process_group("nccl").',
    judge=gloo_on_gpus,
)


def _backend(rank: Rank) -> str | None:
    wrapper, own = facts_of(rank).ddp, facts_of(rank).process_group
    return (wrapper.backend if wrapper is not None else None) or (own.backend if own is not None else None)


def _speaks_nccl(threads: set[str]) -> bool:
    return any(name.startswith(("pt_nccl", "NCCL")) for name in threads)


def _gloo_finding(group: RankGroup, facts: Sequence[Fact], confidence: Confidence) -> Finding:
    return tracked.about(
        group,
        "C16",
        "warning",
        confidence,
        "Gradients travel through the CPU: the backend is gloo",
        facts,
        "gloo copies every gradient from the GPU to host memory and back. NCCL moves them from GPU to GPU.",
        f'dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))\n{fixes.own_command(group)}',
        "NCCL does not work on this machine, or several ranks share one GPU on purpose.",
    )
