"""Untracked ranks that print equal losses, or are not connected: separate worlds (C03), or the same batches (C05). Pure.

Ranks that are connected may print equal losses because they average them before printing, so that is only a hint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.ddp.on_purpose import named_after_several
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import has_group_threads
from gputop.process import ProcessRun

VALUES_MIN = 8
"""So many different losses must be equal on all ranks. Each has three digits or more, so none is equal by chance; more of them
would not show whether ranks that are connected average their losses (our choice)."""
HOLD_S = 10.0
_KEPT = 64
_MPI = ("mpirun", "srun")
"""What these start may be connected by shared memory, of which nothing shows."""


class Alike(NamedTuple):
    """How many of the newest losses are equal on all ranks, and where that is known from."""

    values: int
    text: str
    source: str


def printed_alike(evidence: Evidence, group: RankGroup) -> Alike | None:
    """Return that all ranks print equal losses, in an output that they share or in one for each; None otherwise."""
    run, size = _process_run(evidence, group), tracked.world(group)
    if run is None or len(group.members) != size:
        return None
    repeated = run.repeated
    if repeated is not None:
        if repeated.times != size:
            return None
        text = f"each of the last {units.count(repeated.values)} losses is printed {repeated.times} times, as often as there "
        return Alike(repeated.values, f"{text}are ranks", "its output")
    ranks, name = logged.ranks_of(group), tracked.loss_of(logged.ranks_of(group))
    if name is None or len(ranks) != size:
        return None
    series = [windows.latest(evidence.series(logged.run_id(group), rank.rank, name), _KEPT) for rank in ranks]
    return _equal(name, series, "on all ranks", logged.source(group))


def copies_alike(evidence: Evidence, groups: Sequence[RankGroup]) -> Alike | None:
    """Return that processes of one command print equal losses. ``groups``: that of each process.

    They are one untracked run, or each is one of its own.
    """
    each = list({group.key: group for group in groups}.values())
    if len(each) == 1:
        return printed_alike(evidence, each[0])
    runs = [run for group in each if (run := _process_run(evidence, group)) is not None]
    if len(each) < len(groups) or len(runs) < len(groups):
        return None
    shared = [run.repeated for run in runs if run.repeated is not None and run.run_id is None]
    if len(shared) == len(runs):  # no run has a curve, because each of them may have printed a line
        if any(repeated.times != len(runs) for repeated in shared):
            return None
        text = f"each of the last {units.count(shared[0].values)} losses is printed {len(runs)} times, as often as there "
        return Alike(shared[0].values, f"{text}are processes", "their output")
    ranks = [rank for group in each for rank in logged.ranks_of(group)]
    name = tracked.loss_of(ranks)
    if name is None or len(ranks) != len(each) or any(group.run is not None for group in each):
        return None
    series = [
        windows.latest(evidence.series(logged.run_id(group), logged.ranks_of(group)[0].rank, name), _KEPT) for group in each
    ]
    return _equal(name, series, "of all processes", logged.source(each[0]))


def _equal(name: str, series: Sequence[Mapping[int, float]], whose: str, source: str) -> Alike | None:
    steps = sorted(set(series[0]).intersection(*series[1:]))
    if len({series[0][step] for step in steps}) < VALUES_MIN or any(len({own[step] for own in series}) > 1 for step in steps):
        return None
    return Alike(len(steps), f"{name} is the same {whose}, to the last digit, in {units.count(len(steps))} steps", source)


def separate_worlds(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge C03 from outside: ranks that train and are connected neither to each other nor to where they would meet."""
    size = tracked.world(group)
    run = _process_run(evidence, group)
    if run is None or run.connected is not False or len(group.members) != size or not evidence.trains(group):
        return None
    if group.launcher is not None and group.launcher.name in _MPI:
        return None
    processes = [member.process for member in group.members if member.process is not None]
    if len(processes) < size or any(has_group_threads(process) or "threads" in process.hidden for process in processes):
        return None
    if evidence.communicators(group) or not evidence.is_warm(group):
        return None
    alike = printed_alike(evidence, group)
    several = named_after_several(group)
    firm = alike is not None and alike.values >= VALUES_MIN and not several
    facts = [
        Fact(
            f"{'neither' if size == 2 else 'none'} of the {size} ranks is connected to another, or to where they would meet",
            False,
            "/proc/<pid>/fd, net/tcp",
        ),
        Fact("no thread of NCCL or gloo runs in them", 0, "/proc/<pid>/task"),
        *([Fact(alike.text, alike.values, alike.source)] if alike is not None else []),
        *several,
    ]
    finding = tracked.about(
        group,
        "C03",
        "error",
        "certain" if firm else "possible",
        f"{size} ranks train the same model {size} times: nothing connects them"
        if alike is not None
        else f"Nothing connects the ranks: {size} ranks train {size} separate models",
        facts,
        "The launcher sets RANK and WORLD_SIZE, but the script never calls init_process_group, so each rank trains alone"
        + (", with the same seed and the same data: all but one are wasted." if alike is not None else "."),
        _WRAP_CPU if group.virtual or not group.used else _WRAP,
        "The ranks are independent on purpose, or exchange gradients in another way, such as through files.",
    )
    return Suspicion(finding, HOLD_S)


def same_losses(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge C05 from outside: ranks that are connected and print equal losses, step after step. That is only a hint."""
    run = _process_run(evidence, group)
    if run is None or run.connected is not True or not evidence.trains(group):
        return None
    alike = printed_alike(evidence, group)
    if alike is None or alike.values < VALUES_MIN:
        return None
    size = tracked.world(group)
    finding = tracked.about(
        group,
        "C05",
        "warning",
        "possible",
        f"{tracked.capital(tracked.who(range(size), size))} print the same losses: they may train on the same batches",
        [Fact(alike.text, alike.values, alike.source)],
        "If each rank prints the loss of its own batch, equal losses mean equal batches: nothing divides the data among the "
        f"ranks, and {size} GPUs learn what one would.",
        f"print(dist.get_rank(), x.flatten()[:3])  # does each rank have its own batch?\n{SAMPLER}",
        "The script averages the loss over the ranks before it prints it, prints each line twice by itself, or divides the "
        "model and not the data.",
    )
    return Suspicion(finding, HOLD_S)


SAMPLER = """\
sampler = DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size=..., sampler=sampler, shuffle=False)"""
_WRAP = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = DDP(model.to(local_rank), device_ids=[local_rank])
sampler = DistributedSampler(dataset)  # and each rank reads its own part"""
_WRAP_CPU = """\
dist.init_process_group("gloo")
model = DDP(model)
sampler = DistributedSampler(dataset)  # and each rank reads its own part"""


def _process_run(evidence: Evidence, group: RankGroup) -> ProcessRun | None:
    """Return the untracked run whose ranks are the group's; None for a tracked group."""
    if group.run is not None or evidence.snapshot is None or not group.pids:
        return None
    found = (run for run in evidence.snapshot.process_runs if run.ranks and group.pids[0] in [rank.pid for rank in run.ranks])
    return next(found, None)
