"""Untracked ranks that print equal losses, or are not connected: separate worlds (C03), or the same batches (C05). Pure.

Ranks that are connected may print equal losses because they average them before printing, so that is only a hint.
"""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.ddp.on_purpose import named_after_several
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.equal_losses import VALUES_MIN, printed_alike, process_run
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import has_group_threads

HOLD_S = 10.0
GROUPED_HOLD_S = 60.0
"""Ranks with threads of a process group are reported only after this time: their sockets may have been read before they
connected (our choice)."""
_NO_GROUP = "never calls init_process_group"
_OTHER_VALUES = "seems to pass other values to init_process_group, such as the defaults of its own options"
_MPI = ("mpirun", "srun")
"""What these start may be connected by shared memory, of which nothing shows."""


def separate_worlds(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge C03 from outside: ranks that train and are connected neither to each other nor to where they would meet."""
    size = tracked.world(group)
    run = process_run(evidence, group)
    if run is None or run.connected is not False or len(group.members) != size or not evidence.trains(group):
        return None
    if group.launcher is not None and group.launcher.name in _MPI:
        return None
    processes = [member.process for member in group.members if member.process is not None]
    if len(processes) < size or any("threads" in process.hidden for process in processes):
        return None
    grouped = any(map(has_group_threads, processes))
    if evidence.communicators(group) or not evidence.is_warm(group):
        return None
    alike = printed_alike(evidence, group)
    several = named_after_several(group)
    firm = alike is not None and alike.values >= VALUES_MIN and not several and not grouped
    facts = [
        Fact(
            f"{'neither' if size == 2 else 'none'} of the {size} ranks is connected to another, or to where they would meet",
            False,
            "/proc/<pid>/fd, net/tcp",
        ),
        Fact("threads of NCCL or gloo run in some or all of them: each may have a group of its own", 1, "/proc/<pid>/task")
        if grouped
        else Fact("no thread of NCCL or gloo runs in them", 0, "/proc/<pid>/task"),
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
        f"The launcher sets RANK and WORLD_SIZE, but the script {_OTHER_VALUES if grouped else _NO_GROUP}, so each rank trains "
        "alone" + (", with the same seed and the same data: all but one are wasted." if alike is not None else "."),
        _BY_ENVIRONMENT if grouped else _WRAP_CPU if group.virtual or not group.used else _WRAP,
        "The ranks are independent on purpose, or exchange gradients in another way, such as through files.",
    )
    return Suspicion(finding, GROUPED_HOLD_S if grouped else HOLD_S)


def same_losses(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge C05 from outside: ranks that are connected and print equal losses, step after step. That is only a hint."""
    run = process_run(evidence, group)
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
_BY_ENVIRONMENT = """\
dist.init_process_group(backend)  # without rank, world_size and init_method: they come from the launcher
print(dist.get_rank(), "of", dist.get_world_size())"""
_WRAP_CPU = """\
dist.init_process_group("gloo")
model = DDP(model)
sampler = DistributedSampler(dataset)  # and each rank reads its own part"""
