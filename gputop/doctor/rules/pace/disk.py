"""A disk that is too slow for the processes that load the data (D07)."""

from __future__ import annotations

from gputop.doctor.evidence.data_waits import WARN_SHARE, share_of_data
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion

IO_PRESSURE_PERCENT = 20.0
DISK_SHARE = 0.3
"""Share of the last minute that a worker, or a process that loads its own data, waited for a disk (docs/rules.md#d07)."""


def slow_disk(evidence: Evidence, group: RankGroup) -> Judgement:
    """D07: the loader's processes wait for a disk while the run waits for data."""
    host = evidence.snapshot.host if evidence.snapshot is not None else None
    if host is None or host.io_pressure_percent is None or host.io_pressure_percent < IO_PRESSURE_PERCENT:
        return None
    share = share_of_data(evidence, group)
    waits = waits_for_disk(evidence, group)
    if share is None or share < WARN_SHARE or waits is None or waits < DISK_SHARE:
        return None
    facts = [
        Fact(f"{share:.0%} of the time is spent waiting for data", round(share, 3), "journal: phase/data"),
        Fact(f"its loader waited for a disk in {waits:.0%} of the last minute (state D)", round(waits, 3), "/proc/<pid>/stat"),
        Fact(
            f"processes waited for a disk in {host.io_pressure_percent:.0f}% of the last 10 s",
            host.io_pressure_percent,
            "/proc/pressure/io",
        ),
    ]
    pid = group.pids[0] if group.pids else "PID"
    finding = tracked.about(
        group,
        "D07",
        "warning",
        "likely",
        "The disk is too slow for the loader",
        facts,
        "Possible reasons: many small files, a network file system, or a disk that others use too. A second epoch, from "
        "the page cache, is fast.",
        f"iostat -x 1  # shows the disk; the files: ls -l /proc/{pid}/fd\n"
        "# copy the data to a local disk, pack it in shards (WebDataset), or cache the decoded data",
        "The loader's processes are in state R or S while the training waits.",
    )
    return Suspicion(finding, 5.0)


D07 = Rule(
    id="D07",
    order=2400,
    family="input",
    title="The disk is too slow for the loader",
    severities=("warning",),
    confidences=("likely",),
    needs=("/proc/pressure/io", "/proc/<pid>/stat", "journal: phase/data"),
    window_s=5.0,
    every_s=SELDOM_S,
    threshold=(
        f"I/O pressure of at least {IO_PRESSURE_PERCENT:.0f}%, the loader in state D for {DISK_SHARE:.0%} of a minute, "
        f"and {WARN_SHARE:.0%} of the time waiting for data"
    ),
    hides=("D01", "E02", "E07"),
    mechanism=(
        "Many small files, a network file system, or a disk that others use too slow the loader down. A second epoch, from "
        "the page cache, is fast."
    ),
    signature="The loader's processes wait for a disk (state D), I/O pressure is high, and the loop waits for data.",
    look_alike="D01 (the workers compute and do not wait for a disk).",
    fix="Copy the data to a local disk, pack it in shards, or cache the decoded data.",
    judge=slow_disk,
)


def waits_for_disk(evidence: Evidence, group: RankGroup) -> float | None:
    """Return the highest share of the last minute that a rank's loader waited for a disk; None if unknown."""
    shares = [evidence.still.waits_for_disk(member.process) for member in group.members if member.process is not None]
    return max((share for share in shares if share is not None), default=None)
