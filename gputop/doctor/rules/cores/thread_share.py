"""Computing threads of ranks that are many times their cores: thread settings made for a larger machine (part of D02)."""

from __future__ import annotations

from typing import NamedTuple

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import host_of, utilization

TIMES_CORES = 3
"""This many threads for each core are more than those of a default that counts hyperthreads, or of two ranks that each use all
cores (our choice)."""
TIMES_CORES_COUNTED = 8
"""If only the number of threads is known: libraries start more of them than they use (our choice)."""
MAIN_SHARE_MAX = 1 / 3
"""A main thread with less of the CPU time of its process has many threads compute for it: measured 0.2 with 24 threads."""
USED_UP_PERCENT = 90.0
"""From this use of all cores on, threads wait for each other (our choice)."""
RANKS_SHARE_MIN = 0.25
"""The ranks themselves use at least this fraction of the cores, even next to other programs (our choice)."""
BUSY_PERCENT = 60.0
"""Busier GPUs do not wait for the CPU (our choice)."""
HOLD_S = 10.0
SETTINGS_SHOWN = 3
"""Usually all ranks have the same."""


class _Setting(NamedTuple):
    """How many threads a rank is to compute with, the setting in words, and where it is set."""

    threads: int
    text: str
    source: str


class _Used(NamedTuple):
    """What all ranks use together, and their main threads of that, in percent of one core."""

    percent: float
    main_percent: float


def too_many_threads(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D02 by threads: several for each core, on cores that are used up.

    A setting alone is only information: torch and MKL use fewer threads than they may, at least in some versions.
    """
    host = host_of(evidence)
    if host is None or not host.cpu_count or not evidence.is_warm(group):
        return None
    members = [member for member in group.members if member.process is not None]
    cores, used = _cores(members, host.cpu_count, host.cpu_quota), _used(members)
    if not members or len(members) < len(group.members) or used is None or not _used_up(used, cores, host.cpu_percent):
        return None
    if not group.virtual and any(
        (load := evidence.load(uuid)) is None or load.mean_percent >= BUSY_PERCENT for uuid in group.used
    ):
        return None
    each = max(1, int(cores) // len(members))
    settings = [setting for member in members if (setting := _setting(member, each)) is not None]
    wanted = [setting.threads for setting in settings]
    counted = sum(member.process.thread_count or 0 for member in members if member.process is not None)
    known = len(wanted) == len(members) and sum(wanted) >= TIMES_CORES * cores
    compute = _compute_beside_main(used, cores)
    if not known and not (compute and counted >= TIMES_CORES_COUNTED * cores):
        return None
    number = sum(wanted) if known else counted
    exist = counted >= number
    sure = known and compute and exist
    ranks = words.count(len(members), "rank") if len(members) > 1 else "one process"
    facts = [Fact(f"{ranks} with {counted} threads, for {words.count(int(cores), 'core')}", counted, "/proc/<pid>/stat")]
    if known:
        different = list(dict.fromkeys(settings))
        facts += [Fact(setting.text, setting.threads, setting.source) for setting in different[:SETTINGS_SHOWN]]
    facts.append(_main_fact(used))
    if host.cpu_percent is not None:
        facts.append(Fact(f"the machine's cores are {host.cpu_percent:.0f}% busy", host.cpu_percent, "/proc/stat"))
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


def _used_up(used: _Used, cores: float, machine_percent: float | None) -> bool:
    """Return whether no core is free: of the machine, or of those that a quota or a mask leaves to the ranks."""
    return (machine_percent or 0.0) >= USED_UP_PERCENT or used.percent >= USED_UP_PERCENT * cores


def _compute_beside_main(used: _Used, cores: float) -> bool:
    """Return whether other threads than the main ones use most of what the ranks use, and that is much of the cores."""
    return used.percent >= 100 * RANKS_SHARE_MIN * cores and used.main_percent <= MAIN_SHARE_MAX * used.percent


def _used(members: list[Member]) -> _Used | None:
    """Return what the ranks use; None if that is not known of each."""
    percent = main_percent = 0.0
    for member in members:
        process = member.process
        if process is None or process.cpu_percent is None or process.main_thread_cpu_percent is None:
            return None
        percent += process.cpu_percent
        main_percent += process.main_thread_cpu_percent
    return _Used(percent, main_percent)


def _main_fact(used: _Used) -> Fact:
    text = f"together they use {used.percent:.0f}% of a core, their main threads {used.main_percent:.0f}%"
    return Fact(text, round(used.main_percent / used.percent, 2) if used.percent else None, "/proc/<pid>/task/<tid>/stat")


def _setting(member: Member, fair: int) -> _Setting | None:
    """Return how many threads a rank is to compute with; None if nothing says so.

    Torch may use fewer threads than OMP_NUM_THREADS says; if it uses a ``fair`` number, the variable does not matter.
    """
    settings = facts_of(member.journal).settings if member.journal is not None else None
    own = settings.threads if settings is not None else None
    environment = member.process.environment if member.process is not None else None
    value = dict(environment.settings).get("OMP_NUM_THREADS", "") if environment is not None else ""
    first = value.split(",")[0].strip()
    number = int(first) if first.isdecimal() and len(first) < 6 else None
    if own is not None and (own <= fair or own >= (number or 0)):
        return _Setting(own, f"torch.get_num_threads() is {own}", "journal: settings")
    return None if number is None else _Setting(number, f"OMP_NUM_THREADS is {first}", "/proc/<pid>/environ")
