"""Check a machine before a run for faults that would stop, slow down or misplace a training run that starts now. Pure.

``gputop.sources.preflight`` fills the record; ``check`` judges it together with one snapshot of the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import SEVERITIES, Fact, Finding
from gputop.doctor.preflight import gpu_checks
from gputop.doctor.preflight.record import Check
from gputop.preflight import Preflight
from gputop.snapshot import Snapshot
from gputop.units import bytes_text

__all__ = ["Check", "Preflight", "Report", "check"]

SHM_MIN_BYTES = 2**30
"""Below this, DataLoader workers and NCCL run out of space (docs/rules.md#d08); Docker provides 64 MB."""
SHM_FULL_SHARE = 0.85
"""As in rule D08."""
CORES_FEW = 2
CORES_MANY = 8
"""With this many cores or more, an affinity to two of them is an accident, not a choice (docs/rules.md#d03)."""
FILES_MIN = 4096
"""Each tensor that a worker passes on keeps a file open; Linux distributions default to 1024."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of the check: findings, most severe first, and every row checked."""

    findings: tuple[Finding, ...]
    checks: tuple[Check, ...]


def check(record: Preflight, snapshot: Snapshot) -> Report:
    """Judge the machine; every check returns a row, and some return a finding."""
    checks: list[Check] = []
    for check in _CHECKS:
        checks += check(record, snapshot)
    findings = [item.finding for item in checks if item.finding is not None]
    return Report(tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))), tuple(checks))


def _shm(record: Preflight, snapshot: Snapshot) -> list[Check]:
    total, used = snapshot.host.shm_total_bytes, snapshot.host.shm_used_bytes
    if total is None:
        return [Check("/dev/shm", "unknown", "its size is unreadable")]
    text = f"{bytes_text(total)}, {bytes_text(used)} used" if used is not None else bytes_text(total)
    full = used is not None and used >= SHM_FULL_SHARE * total
    if total >= SHM_MIN_BYTES and not full:
        return [Check("/dev/shm", "fine", text)]
    finding = Finding(
        id="D08",
        severity="warning",
        confidence="likely" if full else "possible",
        title=f"/dev/shm is {'nearly full' if full else 'small'}: {text}",
        evidence=(Fact(f"/dev/shm: {text}", total, "statvfs"),),
        cause="DataLoader workers pass batches through it, and NCCL keeps buffers there. When it is full, they die with a "
        "bus error.",
        fix="ls -lS /dev/shm | head  # shows what fills it; you may remove leftovers of dead jobs"
        if full
        else "docker run --shm-size=8g ...  # or --ipc=host",
        refuted_by="The run has no DataLoader workers and only one rank.",
    )
    return [Check("/dev/shm", "problem", text, finding)]


def _port(record: Preflight, snapshot: Snapshot) -> list[Check]:
    name = f"port {record.master_port}"
    if record.port_taken is None:
        return [Check(name, "unknown", "the list of listening sockets is unreadable")]
    if not record.port_taken:
        return [Check(name, "fine", "free for the rendezvous")]
    who = f"process {record.port_pid} ({record.port_command})" if record.port_pid is not None else "another user's process"
    finding = Finding(
        id="G03",
        severity="warning",
        confidence="certain",
        title=f"Port {record.master_port} is taken by {who}",
        evidence=(Fact(f"a socket listens on port {record.master_port}: {who}", record.port_pid, "/proc/net/tcp"),),
        cause="Rank 0 listens on MASTER_PORT (29500 by default). If another process already does, the start fails with "
        "EADDRINUSE.",
        fix="torchrun --standalone --nproc-per-node=gpu train.py  # uses a free port"
        + (f"\nps -fp {record.port_pid}  # is it a leftover rank?" if record.port_pid is not None else ""),
        refuted_by="The run uses another port, or --standalone.",
        pids=(record.port_pid,) if record.port_pid is not None else (),
    )
    return [Check(name, "problem", f"taken by {who}", finding)]


def _cores(record: Preflight, snapshot: Snapshot) -> list[Check]:
    count, allowed, quota = snapshot.host.cpu_count, record.cores_allowed, snapshot.host.cpu_quota
    if count is None or allowed is None:
        return [Check("CPU", "unknown", "the allowed cores are unreadable")]
    text = f"{allowed} of {words.count(count, 'core')} allowed"
    if quota is not None:
        text += f", quota of {quota:g} cores"
    usable = min(allowed, quota if quota is not None else allowed)
    if usable > CORES_FEW or count < CORES_MANY:
        return [Check("CPU", "fine", text)]
    pinned = allowed <= CORES_FEW
    finding = Finding(
        id="D03" if pinned else "D02",
        severity="warning",
        confidence="likely",
        title=f"Only {usable:g} of {count} cores are available here",
        evidence=(Fact(text, usable, "sched_getaffinity" if pinned else "cgroup cpu.max"),),
        cause="DataLoader workers and ranks inherit this limit and share these cores."
        + (
            " Batch systems set it for each task, and some libraries at import."
            if pinned
            else " The container has a CPU quota."
        ),
        fix="taskset -pc $$  # shows the cores that this shell may use\n#SBATCH --cpus-per-task=8"
        if pinned
        else "docker run --cpus=16 ...",
        refuted_by="The run does not prepare data on the CPU.",
    )
    return [Check("CPU", "problem", text, finding)]


def _limits(record: Preflight, snapshot: Snapshot) -> list[Check]:
    rows = []
    if record.files_limit is None:
        rows.append(Check("open files", "unknown", "the limit is unreadable"))
    elif record.files_limit >= FILES_MIN:
        rows.append(Check("open files", "fine", f"limit {record.files_limit}"))
    else:
        finding = Finding(
            id="D08",
            severity="info",
            confidence="possible",
            title=f"At most {record.files_limit} open files are allowed",
            evidence=(Fact(f"ulimit -n is {record.files_limit}", record.files_limit, "getrlimit"),),
            cause="Each tensor that a DataLoader worker passes on keeps a file open.",
            fix="ulimit -n 65536",
            refuted_by="The run has no DataLoader workers.",
        )
        rows.append(Check("open files", "problem", f"limit {record.files_limit}", finding))
    locked = record.locked_limit_bytes
    text = "unlimited" if record.locked_unlimited else "unknown" if locked is None else bytes_text(locked)
    if record.infiniband and not record.locked_unlimited and locked is not None:
        finding = Finding(
            id="G05",
            severity="warning",
            confidence="likely",
            title=f"Locked memory is limited to {text}, and there is InfiniBand",
            evidence=(Fact(f"ulimit -l is {text}", locked, "getrlimit"),),
            cause="NCCL registers its buffers with the network card, which locks them in memory.",
            fix="ulimit -l unlimited\ndocker run --ulimit memlock=-1 ...",
            refuted_by="NCCL does not use InfiniBand here (NCCL_IB_DISABLE=1).",
        )
        rows.append(Check("locked memory", "problem", text, finding))
    else:
        rows.append(Check("locked memory", "unknown" if text == "unknown" else "fine", f"limit {text}"))
    return rows


def _numa(record: Preflight, snapshot: Snapshot) -> list[Check]:
    nodes = record.numa_nodes
    if nodes is None:
        return [Check("NUMA", "unknown", "the NUMA nodes are unreadable")]
    text = words.count(nodes, "node")
    far = [
        device
        for device in snapshot.devices
        if device.kind == "gpu" and device.cpu_affinity and record.cores and not set(device.cpu_affinity) & set(record.cores)
    ]
    if nodes < 2 or not far:
        return [Check("NUMA", "fine", text)]
    finding = Finding(
        id="D10",
        severity="info",
        confidence="possible",
        title=f"None of the allowed cores is near {words.gpus(far)}",
        evidence=(Fact(f"cores allowed here: {units.ranges(record.cores)}", list(record.cores), "sched_getaffinity"),),
        cause="Copies to these GPUs go through the other socket.",
        fix="torchrun --numa-binding=node ...  # or start without a core mask",
        refuted_by="The run uses other GPUs.",
        devices=tuple(device.uuid for device in far),
    )
    return [Check("NUMA", "problem", f"{text}; no allowed core near {words.gpus(far)}", finding)]


_CHECKS: tuple[Callable[[Preflight, Snapshot], list[Check]], ...] = (
    gpu_checks.driver,
    gpu_checks.torch_build,
    gpu_checks.visible,
    gpu_checks.modes,
    gpu_checks.links,
    gpu_checks.occupied,
    gpu_checks.fabric,
    _shm,
    _port,
    _cores,
    _limits,
    _numa,
)
