"""Records what the GPUs of runs do while the sampler watches, and reads it again when a screen asks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from gputop.facts.table import Facts
from gputop.places import runs_dir
from gputop.run_questions import GpuPast, GpusAnswer, GpusQuestion
from gputop.snapshot import LIVE_STATES, Device, Run, Snapshot
from gputop.tracking.gpus import record
from gputop.tracking.gpus.record import Reading
from gputop.tracking.journal import places

ANSWERED_READINGS = 2000
"""Most readings of one GPU in an answer: more than a screen has columns."""
_RUN_ID_BYTES_MAX = 255
"""A run's id is the name of its directory: Linux's limit for a file name (NAME_MAX)."""


def ask(question: GpusQuestion, deliver: Callable[[GpusAnswer], object]) -> None:
    """Answer in a separate thread: a disk may be slow."""
    threading.Thread(target=lambda: deliver(answer_to(question)), daemon=True, name="gpus").start()


def answer_to(question: GpusQuestion) -> GpusAnswer:
    """Read the answer from the disk."""
    return GpusAnswer(question, tuple(past for run_id in question.run_ids for past in _pasts(run_id)))


def _pasts(run_id: str) -> Iterable[GpuPast]:
    if "/" in run_id or run_id in ("", ".", "..") or "\0" in run_id or len(run_id.encode()) > _RUN_ID_BYTES_MAX:
        return
    for root in places.archive_roots(runs_dir()):
        directory = root / run_id
        if not places.is_ours(directory):
            continue
        for uuid, readings in record.read(directory).items():
            kept = readings[:: -(-len(readings) // ANSWERED_READINGS)]
            _, _, times, utilization, memory, power = zip(*kept, strict=True)
            yield GpuPast(run_id, uuid, readings[-1].number, times, utilization, memory, power)


def record_gpus(snapshot: Snapshot, directory_of: Callable[[str], Path | None]) -> None:
    """Record what the GPUs of live runs do, if a line is due. ``directory_of`` returns where a run's journals are kept."""
    for run in snapshot.runs:
        directory = directory_of(run.run_id) if run.state in LIVE_STATES else None
        if directory is None or run.created_at is None or not places.is_ours(directory):
            continue
        for device in _devices_of(run, snapshot):
            if device.state == "ok" and record.is_due(directory, device.uuid, run.created_at):
                record.add(directory, _reading(device, snapshot.time), run.created_at)


def _devices_of(run: Run, snapshot: Snapshot) -> Iterable[Device]:
    """Return the devices that the run's processes use or report."""
    known = {use.device_uuid for process in snapshot.processes if process.run_id == run.run_id for use in process.devices}
    known |= {device.uuid for rank in run.ranks for device in Facts(rank.facts).devices if device.uuid is not None}
    return (device for device in snapshot.devices if device.uuid in known)


def _reading(device: Device, time: float) -> Reading:
    return Reading(device.uuid, device.index, time, device.utilization_percent, device.memory_used_bytes, device.power_w)
