"""Which of the failures in the logs of a run came first. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.doctor.logs.launcher import Root
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.patterns.pattern import REASON
from gputop.doctor.logs.scan import LogScan

_ENDS = frozenset(
    {
        *(
            "cpp_terminate",
            "killed",
            "sigkill",
            "signal_crash",
            "bus_error",
            "slurm_cancelled",
            "srun_killed",
            "python_fatal",
            "stopped",
        ),
        *("bus_error", "pin_thread"),
    }
)
"""How a process or a thread ended, as others report it: an exception before it, after which nothing continued, comes first."""
_SIGNALS = frozenset({"killed", "sigkill", "slurm_cancelled", "srun_killed", "stopped"})
_STOPS = _SIGNALS - {"sigkill"}
"""How a run ends that was asked to stop. A launcher that reports SIGKILL of one rank ends by itself."""
_SENDERS = frozenset({"kernel_oom", "memory_limit", "pod_evicted", "slurm_preempted", "slurm_time_limit", "time_limit"})
"""Reasons for such a signal: often logged only after the shell has reported the signal."""
_REPORTS = re.compile(
    r"^(?:[a-z_]\w*\.)*(?:CalledProcessError|ChildFailedError|ProcessExitedException): |"
    r"\b[Ss]ee (?:the )?(?:root cause|stack trace|error|traceback|log)\b.{0,40}\b(?:above|root cause)\b"
)
"""An exception of a launcher that reports another process's end: what that process raised before comes first."""
_BUILD = re.compile(
    r"\bCalledProcessError\b|\breturned non-zero exit status\b|\bError building extension\b|\bBackendCompilerFailed\b"
    r"|\bInductorError\b|\bCppCompileError\b|\bCompilationError\b|^error: command '[^']{1,200}' failed|^ninja: build stopped"
    r"|^make(?:\[\d+\])?: \*\*\* |\bFailed to build\b|\bcompilation terminated\b"
)
"""Reports that a compiler or linker failed; its own words came before."""
REASON_WITHIN = 400
"""The lines of a build between what failed in it and what reports that."""
WORKER_WITHIN = 200
"""The lines between what a DataLoader's worker says of its end and what the loader says of it: tracebacks of other ranks."""
_ABORT = frozenset({"cpp_terminate"})
_OF_HARDWARE = frozenset({"gpu_lost", "xid"})
"""What the driver says of a GPU; the process that used it may only have seen an unknown error before."""
_OF_CUDA = re.compile(r"\bCUDA error: (?:unknown error|.{0,80}\bunspecified\b|uncorrectable ECC|hardware stack error)")
_LOST_RENDEZVOUS = frozenset({"rdzv_connection"})
PEER_LEFT = frozenset({"nccl_peer_closed", "nccl_remote", "gloo_peer", "store_lost"})
"""What a rank says when a process on another host has closed its connection."""
_SHELL_GOES_ON = frozenset({"command_not_found", "conda_activate"})
"""What a shell script survives without set -e: a later failure ended it."""


def fatal(failures: list[Observation], passed: frozenset[tuple[str, int]]) -> list[Observation]:
    """Leave out unknown exceptions if their rank failed again later: the rank had continued.

    How a process ended is no second failure, unless progress followed the exception (``passed``: file and place).
    """
    last: dict[tuple[str, int | None], Observation] = {}
    for item in failures:
        before = last.get((item.file, item.rank))
        is_end = item.pattern is not None and item.pattern.id in _ENDS and (not item.block or item.pattern.vague)
        is_end = is_end or (item.pattern is None and _REPORTS.search(item.line) is not None)
        if before is None or not is_end or (before.file, before.at) in passed:
            last[(item.file, item.rank)] = item
    kept = [item for item in failures if item.pattern is not None or last[(item.file, item.rank)] is item]
    sent = max((place for place, item in enumerate(kept) if _is_one_of(item, _SENDERS)), default=-1)
    kept = [item for place, item in enumerate(kept) if place > sent or not _is_one_of(item, _SIGNALS)]
    telling = [item for item in kept if item.pattern is not None or _REPORTS.search(item.line) is None]
    kept = telling or kept
    return [item for at, item in enumerate(kept) if not _is_survived_by_a_shell(item, kept[at + 1 :])]


def without_stops(seen: Sequence[Observation]) -> list[Observation]:
    """Leave out what the programs of a run print of its stop, which was asked for: it is no failure."""
    return [item for item in seen if not _is_one_of(item, _STOPS)]


def _is_one_of(item: Observation, ids: frozenset[str]) -> bool:
    return item.pattern is not None and item.pattern.id in ids


def _is_survived_by_a_shell(item: Observation, later: Sequence[Observation]) -> bool:
    return item.pattern is not None and item.pattern.id in _SHELL_GOES_ON and any(not is_same(item, other) for other in later)


def first_failure(failures: list[Observation], launcher: Root | None, scans: Sequence[LogScan]) -> Observation | None:
    """Return the failure that came first: by the launcher, timestamps, when the logs end, or the order in one."""
    if not failures:
        return None
    own = [item for item in failures if launcher is not None and item.rank is not None and item.rank == launcher.rank]
    if launcher is not None and not own:
        # A log without prefixes, or a rank without lines of its own: it may own what no other rank claims.
        own = [item for item in failures if item.rank is None]
    files = {scan.name: position for position, scan in enumerate(scans)}
    written = {scan.name: scan.written_at or 0.0 for scan in scans}
    position = {id(item): number for number, item in enumerate(failures)}
    timed = all(item.time is not None for item in failures)
    if timed:
        return min(failures, key=lambda item: (item.time or 0.0, position[id(item)]))
    candidates = own or failures
    one_each = len({item.file for item in candidates}) > 1
    return min(
        candidates,
        key=lambda item: (
            # The log of the rank that failed first ends first; a timestamp in a line is more precise.
            (item.time if item.time is not None else written[item.file]) if one_each else 0.0,
            files[item.file],
            position[id(item)],
        ),
    )


def not_cancelled_for(failures: list[Observation], consequences: Sequence[Observation]) -> list[Observation]:
    """Leave out that Slurm cancelled a step in which a task had failed before: it does so because of that."""
    ended = {item.file: item.at for item in reversed(consequences) if _is_one_of(item, frozenset({"srun_exit"}))}
    return [
        item
        for item in failures
        if not (_is_one_of(item, frozenset({"slurm_cancelled"})) and "." in item.groups["job"])
        or ended.get(item.file, item.at) >= item.at
    ]


def not_after_a_peer(failures: list[Observation], consequences: Sequence[Observation]) -> list[Observation]:
    """Leave out that a node lost the rendezvous after a process of another one had closed its connections: that one ended."""
    left = {item.file: item.at for item in reversed(consequences) if _is_one_of(item, PEER_LEFT)}
    return [item for item in failures if not _is_one_of(item, _LOST_RENDEZVOUS) or left.get(item.file, item.at) >= item.at]


def not_of_a_bus_error(failures: list[Observation]) -> list[Observation]:
    """Leave out that workers are gone, if one of them says next to it that shared memory was too small for it."""
    buses = [item for item in failures if _is_one_of(item, frozenset({"worker_bus"}))]
    return [
        item
        for item in failures
        if not (
            _is_one_of(item, frozenset({"worker_killed"}))
            and any(bus.file == item.file and abs(bus.at - item.at) <= WORKER_WITHIN for bus in buses)
        )
    ]


def not_before_hardware(failures: list[Observation]) -> list[Observation]:
    """Leave out a CUDA error without a reason, and an abort, if the driver's log then says what happened to the GPU."""
    last = max((place for place, item in enumerate(failures) if _is_one_of(item, _OF_HARDWARE)), default=-1)
    return [
        item
        for place, item in enumerate(failures)
        if place > last or not (_is_one_of(item, _ABORT) or (item.pattern is None and _OF_CUDA.search(item.line) is not None))
    ]


def not_after_a_telling_one(failures: list[Observation]) -> list[Observation]:
    """Leave out vague words of NCCL if it said before, of whichever rank, which call failed."""
    told = {item.file: item.at for item in reversed(failures) if _is_of_nccl(item, vague=False)}
    return [item for item in failures if not (_is_of_nccl(item, vague=True) and told.get(item.file, item.at) < item.at)]


def _is_of_nccl(item: Observation, vague: bool) -> bool:
    return item.pattern is not None and item.pattern.id.startswith("nccl_") and item.pattern.vague is vague


def reason_of(report: Observation | None, seen: Sequence[Observation]) -> Observation | None:
    """Return the first line in which a command said why it failed, if ``report`` is about such a command's end, or why it never
    began before its time was over.
    """
    if report is not None and _is_one_of(report, frozenset({"slurm_time_limit"})):
        waits = [item for item in seen if _is_one_of(item, frozenset({"slurm_step_waits"})) and item.file == report.file]
        # What ran meanwhile would have printed something of its own.
        return waits[0] if waits and report.plain - waits[-1].plain <= 1 and report.progress == waits[0].progress else None
    if report is None or (_BUILD.search(report.line) is None and _BUILD.search(report.message) is None):
        return None
    reasons = (item for item in seen if item.pattern is not None and item.pattern.kind == REASON and item.file == report.file)
    near = (item for item in reasons if 0 <= report.at - item.at <= REASON_WITHIN)
    return next((item for item in near if item.rank in (None, report.rank) or report.rank is None), None)


def is_same(one: Observation, other: Observation) -> bool:
    """Return whether two lines report the same failure: by their pattern, or by their text if none is known."""
    if one.pattern is None or other.pattern is None:
        return one.pattern is other.pattern and one.line == other.line
    return one.pattern.id == other.pattern.id
