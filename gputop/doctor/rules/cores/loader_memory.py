"""Shared memory that runs out while loader workers pass batches through it (D08)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import host_of, with_workers
from gputop.units import bytes_text

SHM_FULL = 0.85
SHM_SMALL_BYTES = 1_000_000_000
"""Share of /dev/shm in use, and its size (docs/rules.md#d08); Docker provides 64 MB."""


def shared_memory(evidence: Evidence, group: RankGroup) -> Judgement:
    """D08: /dev/shm fills up or is small, while workers pass batches through it."""
    host = host_of(evidence)
    if host is None or not host.shm_total_bytes or not with_workers(group):
        return None
    used = host.shm_used_bytes
    full = used is not None and used >= SHM_FULL * host.shm_total_bytes
    if not full and host.shm_total_bytes >= SHM_SMALL_BYTES:
        return None
    text = f"/dev/shm has {bytes_text(host.shm_total_bytes)}" + (f", {bytes_text(used)} used" if used is not None else "")
    finding = tracked.about(
        group,
        "D08",
        "warning" if full else "info",
        "likely" if full else "possible",
        "/dev/shm is nearly full" if full else "/dev/shm is small for loader workers",
        [Fact(text, used, "statvfs")],
        "Loader workers pass batches through it. When it is full, they die with a bus error.",
        "docker run --shm-size=8g ...  # or --ipc=host\n"
        'torch.multiprocessing.set_sharing_strategy("file_system")  # if you cannot change that',
        "The batches are small.",
    )
    return Suspicion(finding, 3.0)


D08 = Rule(
    id="D08",
    order=2302,
    family="cpu",
    title="/dev/shm is small or nearly full",
    severities=("warning", "info"),
    confidences=("likely", "possible"),
    needs=("statvfs",),
    window_s=3.0,
    threshold=f"/dev/shm at {SHM_FULL:.0%} (likely), or smaller than 1 GB (possible), with loader workers",
    mechanism="Loader workers pass batches through /dev/shm. When it is full, they die with a bus error.",
    signature="A loader has workers, and /dev/shm is 85% full or smaller than 1 GB.",
    look_alike="Small batches, which fit; G05 (NCCL needs the space).",
    fix="Start the container with --shm-size=8g or --ipc=host, or share tensors through the file system.",
    judge=shared_memory,
)
