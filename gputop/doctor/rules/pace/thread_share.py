"""Computing threads of ranks that are many times their cores: thread settings made for a larger machine (part of D02)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import host_of, utilization

TIMES_CORES = 3
"""So many threads for each core are more than a default that counts hyperthreads, or two ranks that each use all cores (our
choice)."""
TIMES_CORES_COUNTED = 8
"""If only the number of threads is known: libraries start more of them than they use (our choice)."""
MAIN_SHARE_MAX = 1 / 3
"""A main thread with less of the CPU time of its process has many threads compute for it: measured 0.2 with 24 threads."""
USED_UP_PERCENT = 90.0
"""From this use of all cores on, threads wait for each other (our choice)."""
RANKS_SHARE_MIN = 0.25
"""The ranks themselves use at least this fraction of the cores, even beside other programs (our choice)."""
BUSY_PERCENT = 60.0
"""Busier GPUs do not wait for the CPU (our choice)."""
HOLD_S = 10.0


def too_many_threads(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D02 by threads: several for each core, on cores that are used up.

    A setting alone is only information: torch and MKL use fewer threads than they may, at least in some versions.
    """
    host = host_of(evidence)
    if host is None or not host.cpu_count or not evidence.is_warm(group):
        return None
    members = [member for member in group.members if member.process is not None]
    cores = _cores(members, host.cpu_count, host.cpu_quota)
    if not members or len(members) < len(group.members) or not _used_up(members, cores, host.cpu_percent):
        return None
    if not group.virtual and any(
        (load := evidence.load(uuid)) is None or load.mean_percent >= BUSY_PERCENT for uuid in group.used
    ):
        return None
    each = max(1, int(cores) // len(members))
    set_by = [_set_for(member, each) for member in members]
    wanted = [number for number, _ in set_by if number is not None]
    counted = sum(member.process.thread_count or 0 for member in members if member.process is not None)
    known = len(wanted) == len(members) and sum(wanted) >= TIMES_CORES * cores
    compute = _compute_beside_main(members, cores)
    if not known and not (compute and counted >= TIMES_CORES_COUNTED * cores):
        return None
    number = sum(wanted) if known else counted
    exist = counted >= number
    sure = known and compute and exist
    ranks = words.count(len(members), "rank") if len(members) > 1 else "one process"
    facts = [Fact(f"{ranks} with {counted} threads, for {words.count(int(cores), 'core')}", counted, "/proc/<pid>/stat")]
    if known:
        facts.append(Fact(f"{set_by[0][1]} for each", max(wanted), "journal: settings" if group.run else "/proc/<pid>/environ"))
    facts.append(_main_fact(members))
    if host.cpu_percent is not None:
        facts.append(Fact(f"the machine's cores are used to {host.cpu_percent:.0f}%", host.cpu_percent, "/proc/stat"))
    finding = tracked.about(
        group,
        "D02",
        "warning" if exist else "info",
        "likely" if sure else "possible",
        f"{number} threads of {ranks} share {words.count(int(cores), 'core')}"
        if exist
        else f"{tracked.capital(ranks)} {'are' if len(members) > 1 else 'is'} set to {number} threads on "
        f"{words.count(int(cores), 'core')}",
        [*facts, *utilization(evidence, tracked.used_devices(group))],
        "Each operation on the CPU is divided among all threads of its process and ends with the last of them. With more "
        "threads than cores, some of them wait for a core, and the others for those. The number often comes from a larger "
        "machine: OMP_NUM_THREADS, torch.set_num_threads, or a container that sees all cores of its host.",
        f"OMP_NUM_THREADS={each} {fixes.own_command(group)}\ntorch.set_num_threads({each})  # instead, if the script sets it",
        f"The script sets a number of its own, or a step takes as long with {each} per rank.",
    )
    return Suspicion(finding, HOLD_S)


def _cores(members: list[Member], machine: int, quota: float | None) -> float:
    allowed = [
        member.process.cores_allowed for member in members if member.process is not None and member.process.cores_allowed
    ]
    cores = max(allowed, default=machine)
    return max(1.0, min(cores, quota) if quota is not None else cores)


def _used_up(members: list[Member], cores: float, machine_percent: float | None) -> bool:
    """Return whether no core is free: of the machine, or of those that a quota or a mask leaves to the ranks."""
    used = _used(members)
    return used is not None and ((machine_percent or 0.0) >= USED_UP_PERCENT or used[0] >= USED_UP_PERCENT * cores)


def _compute_beside_main(members: list[Member], cores: float) -> bool:
    """Return whether other threads than the main ones use most of what the ranks use, and that is much of the cores."""
    used = _used(members)
    return used is not None and used[0] >= 100 * RANKS_SHARE_MIN * cores and used[1] <= MAIN_SHARE_MAX * used[0]


def _used(members: list[Member]) -> tuple[float, float] | None:
    """Return what the ranks use of a core, in percent, and their main threads of that; None if it is not known of each."""
    used = main = 0.0
    for member in members:
        process = member.process
        if process is None or process.cpu_percent is None or process.main_thread_cpu_percent is None:
            return None
        used += process.cpu_percent
        main += process.main_thread_cpu_percent
    return used, main


def _main_fact(members: list[Member]) -> Fact:
    used, main = _used(members) or (0.0, 0.0)
    text = f"together they use {used:.0f}% of a core, their main threads {main:.0f}%"
    return Fact(text, round(main / used, 2) if used else None, "/proc/<pid>/task/<tid>/stat")


def _set_for(member: Member, fair: int) -> tuple[int | None, str]:
    """Return how many threads a rank is to compute with, and the setting in words; None if nothing says so.

    Torch may use fewer threads than OMP_NUM_THREADS says; if it uses a ``fair`` number, the variable does not matter.
    """
    settings = facts_of(member.journal).settings if member.journal is not None else None
    own = settings.threads if settings is not None else None
    environment = member.process.environment if member.process is not None else None
    value = dict(environment.settings).get("OMP_NUM_THREADS", "") if environment is not None else ""
    first = value.split(",")[0].strip()
    number = int(first) if first.isdecimal() and len(first) < 6 else None
    if own is not None and (own <= fair or own >= (number or 0)):
        return own, f"torch.get_num_threads() is {own}"
    return number, f"OMP_NUM_THREADS={first}"
