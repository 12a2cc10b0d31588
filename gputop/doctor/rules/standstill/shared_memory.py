"""A /dev/shm that is too small for NCCL (G05)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion

SHM_NCCL_BYTES = 256 * 2**20
"""NCCL's buffers may not fit into less (docs/rules.md#g05)."""


def small_shared_memory(evidence: Evidence, group: RankGroup) -> Judgement:
    """G05: NCCL's ranks share less than 256 MB of /dev/shm."""
    host = evidence.snapshot.host if evidence.snapshot is not None else None
    if host is None or not host.shm_total_bytes or host.shm_total_bytes >= SHM_NCCL_BYTES:
        return None
    nccl = [p for p in group.processes if any(name.startswith("pt_nccl") for name, _ in p.threads)]
    if len(nccl) < 2:
        return None
    runs = evidence.progressing(group)  # NCCL allocates its buffers at the start, and here they fit.
    finding = tracked.about(
        group,
        "G05",
        "info" if runs else "warning",
        "possible" if runs else "likely",
        "/dev/shm is too small for NCCL",
        [
            Fact(f"/dev/shm has {host.shm_total_bytes / 2**20:.0f} MiB", host.shm_total_bytes, "statvfs"),
            Fact(f"{len(nccl)} processes use NCCL", len(nccl), "/proc/<pid>/task"),
        ],
        "NCCL keeps the buffers between the ranks of one machine there, and Docker's default is 64 MB.",
        "docker run --shm-size=1g --ulimit memlock=-1 ...",
        "The GPUs reach each other by NVLink, or NCCL_SHM_DISABLE=1 is set on purpose.",
    )
    return Suspicion(finding, 5.0)


G05 = Rule(
    id="G05",
    order=1001,
    family="lost ranks",
    title="/dev/shm is too small for NCCL",
    severities=("warning", "info"),
    confidences=("likely", "possible"),
    needs=("statvfs", "/proc"),
    window_s=5.0,
    every_s=EVERY_SNAPSHOT,
    threshold="/dev/shm below 256 MB, and two processes that use NCCL",
    mechanism="NCCL keeps the buffers between the ranks of one machine in /dev/shm. Docker's default size is 64 MB.",
    signature="Two or more processes use NCCL, and /dev/shm has less than 256 MB.",
    look_alike="GPUs that reach each other by NVLink; NCCL_SHM_DISABLE=1 set on purpose.",
    fix="Start the container with --shm-size=1g --ulimit memlock=-1.",
    judge=small_shared_memory,
)
