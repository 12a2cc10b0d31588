"""Queries and facts that several rules share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gputop.command_line import script_words
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Fact
from gputop.groups import GROUP_THREADS
from gputop.snapshot import Device, Host, Process

_THROUGH_THE_WRAPPER = """\
loss = model(x)  # the wrapper itself, instead of {call}
# call a method other than forward through forward, in {module}:
def forward(self, x, mode=None):
    return getattr(self, mode)(x) if mode else self.plain(x)  # called as model(x, mode="loss")"""


def through_the_wrapper(module: str, where: str | None) -> str:
    """Return the fix of a script that calls the wrapped module past its wrapper, at the line ``where`` if that is known."""
    call = "model.module(x)" if where is None else f"the call in {where}"
    return filled(_THROUGH_THE_WRAPPER, {"call": call, "module": module})


def has_group_threads(process: Process) -> bool:
    """Return whether a process has joined a process group, by the threads of NCCL or gloo; a group of one has them, too."""
    return any(name.startswith(GROUP_THREADS) for name, _ in process.threads)


LINE_SHARE = 0.25
"""A line is reported if the main thread was seen there in this share of all looks (our choice)."""


def seen_at(evidence: Evidence, processes: Sequence[Process], within_s: float) -> list[Fact]:
    """Return at which line of the user's own code each main thread was mostly seen, where its stack can be read."""
    facts = []
    for process in processes:
        found = evidence.doings.mostly_at(process, within_s)
        if found is not None and found[1] >= LINE_SHARE:
            at, share = found
            text = f"in {share:.0%} of the looks at its stack, the main thread of process {process.pid} was at {at.place}"
            facts.append(Fact(text, at.line, f"/proc/{process.pid}/mem"))
    return facts


def only_updates(evidence: Evidence, process: Process) -> bool:
    """Return whether a process was seen to update weights, but never to compute gradients: others do that for it.

    It may have built a model, or evaluate one. Without any backward that is recognized, most looks are at a forward pass.
    """
    did = Counter(look.activity for look in evidence.doings.seen(process).looks)
    return did["optimizer"] > 0 and did["backward"] == 0 and did["forward"] <= did["optimizer"]


def siblings(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether the same user has another run on other devices: a sweep in which each run has its share on purpose."""
    pool = {device.uuid for device in group.pool}
    return any(
        other.key != group.key and other.uids & group.uids and (other.used - group.used) & pool for other in evidence.groups
    )


def runs_same_script(group: RankGroup, process: Process) -> bool:
    """Return whether a process runs the script of the group for the same user."""
    first = group.main_process
    return first is not None and process.uid in group.uids and _script(process) == _script(first) != ()


def is_twin(group: RankGroup, process: Process) -> bool:
    """Return whether a process is another run of the group's script: what one program has forked has the same command."""
    first, own = group.main_process, {*group.pids, *(each.pid for each in group.processes)}
    if first is None or not own.isdisjoint((process.pid, process.ppid)):
        return False
    apart = process.ppid not in (None, first.ppid) or process.command != first.command
    return apart and runs_same_script(group, process)


def _script(process: Process) -> tuple[str, ...]:
    words = script_words(process.command or ())
    return words[:2] if words[:1] == ("-m",) else words[:1]


def sees(who: str, group: RankGroup) -> Fact:
    """Return how many devices the group sees, and through which mask."""
    masks = ", ".join(dict.fromkeys(group.masks))
    unmasked = "at launch" in group.visible_source and not masks
    text = f"{who} {words.count(group.visible_count or 0, 'GPU')}"
    name = "GPUTOP_VIRTUAL_DEVICES" if group.virtual else "CUDA_VISIBLE_DEVICES"
    how = f": {name}={masks}" if masks else f": {name} is not set" if unmasked else ""
    return Fact(text + how, group.visible_count, group.visible_source.removeprefix(f"{name} at launch ").strip("()"))


def utilization(evidence: Evidence, devices: Sequence[Device]) -> list[Fact]:
    """Return one fact with the mean utilization of each device; none while it is unknown."""
    loads = [(device, evidence.load(device.uuid)) for device in devices]
    known = [(device, load) for device, load in loads if load is not None]
    if not known:
        return []
    span = max(load.span_s for _, load in known)
    values = [round(load.mean_percent, 1) for _, load in known]
    text = " / ".join(f"{value:.0f}" for value in values)
    names = words.gpus([device for device, _ in known])
    source = "virtual GPU readings" if known[0][0].kind == "virtual" else "NVML"
    return [Fact(f"mean utilization of {names} over {span:.0f} s: {text}%", values, source)]


def main_device(group: RankGroup, member: Member) -> Device | None:
    """Return the device that a member uses most; None if it is unknown."""
    return next((device for device in group.pool if device.uuid == member.main), None)


def real_gpu(group: RankGroup, member: Member) -> Device | None:
    """Return the GPU that a member uses most; None if it is unknown or a virtual one."""
    return main_device(group, member) if not group.virtual else None


def cores_per_rank(evidence: Evidence, group: RankGroup) -> int:
    """Return how many of its cores the host has for each rank of a group; at least 1."""
    allowed = [member.process.cores_allowed for member in group.members if member.process and member.process.cores_allowed]
    host = evidence.snapshot.host.cpu_count if evidence.snapshot is not None else None
    cores = max(allowed, default=host or 8)
    return max(1, cores // max(1, len(group.members)))


def host_of(evidence: Evidence) -> Host | None:
    """Return the newest readings of the machine; None before the first snapshot."""
    return evidence.snapshot.host if evidence.snapshot is not None else None


def with_workers(group: RankGroup) -> list[Process]:
    """Return the group's processes that have DataLoader workers."""
    return [process for process in group.processes if process.workers is not None and process.workers.count]
