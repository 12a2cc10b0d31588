"""Files that a run reads or writes all the time, apart from its main thread's waits, seen from outside (D01 and E07, possible).

A data set in the training process that reads a whole file for each sample mostly reads it from the page cache: no disk is
waited for, and the main thread runs. A thread or a child that writes a checkpoint in each step lets the main thread run, too.
The counters of /proc/<pid>/io show both. They do not show whether the steps would be faster without it.
"""

from __future__ import annotations

from pathlib import PurePath

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import fixes
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.pace.saves import SPAN_S, STEPS_EVERY_S, TIMES_READ, steps_go_on
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import cores_per_rank, utilization
from gputop.units import bytes_text

PARTS = 3
READ_MIN_BYTES = 2.0**24
READ_PER_CPU_S = 144 * 2.0**20
"""For each second of the main thread's CPU time. Python's ``readlines`` takes most of the time at this rate (our choice)."""
COPIED = 0.5
"""A process that writes more than this share of what it reads copies its own files, such as checkpoints (our choice)."""
WRITTEN_MIN_BYTES = 2.0**24
"""A log, metrics or a small model that is kept at its best are less than this per second (our choice)."""
BUSY_PERCENT = 60.0
"""Busier GPUs do not wait for the main threads (our choice)."""
HOLD_S = 5.0


def reads_all_the_time(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 for an untracked run without loader workers: its own process reads much, and its GPU is not busy."""
    run = logged.run_id(group)
    if group.run is not None or run is None or not evidence.has_moved(run, STEPS_EVERY_S) or not evidence.is_warm(group):
        return None
    devices = tracked.used_devices(group)
    loads = [windows.mean_utilization(evidence, device.uuid) for device in devices]
    if not group.virtual and (not loads or any(load is None or load >= BUSY_PERCENT for load in loads)):
        return None
    for process in (member.process for member in group.members if member.process is not None):
        if process.workers is not None and process.workers.count:
            continue
        written, read = evidence.still.steady_per_s(process, SPAN_S, PARTS)
        main = process.main_thread_cpu_percent
        if main is None or read < READ_MIN_BYTES or read < READ_PER_CPU_S * main / 100 or written > COPIED * read:
            continue
        cores = cores_per_rank(evidence, group)
        if not steps_go_on(evidence, group, run):
            return None
        finding = tracked.about(
            group,
            "D01",
            "warning",
            "possible",
            "The training process itself reads files all the time, without loader workers",
            [
                Fact(f"for {SPAN_S:.0f} s it has read {bytes_text(round(read))}/s or more", round(read), "/proc/<pid>/io"),
                Fact("it has no loader workers", 0, "/proc"),
                Fact(f"its main thread uses {main:.0f}% of a core", main, "/proc/<pid>/task"),
                *utilization(evidence, devices),
            ],
            "The data set seems to read a whole file for each sample, or the same files again and again. From the page cache "
            "that is quick for the disk, but the main thread copies and decodes all of it between two steps.",
            "# read the file once in __init__, or keep it open and read one sample by its position (mmap, np.memmap, HDF5)\n"
            f"DataLoader(..., num_workers={min(8, cores)}, persistent_workers=True)  # {cores} cores for each rank\n"
            f"py-spy top --pid {process.pid}  # how much of the time is __getitem__?",
            "The files are read quickly, and the steps take their time elsewhere.",
            pids=(process.pid,),
        )
        return Suspicion(finding, HOLD_S)
    return None


def writes_all_the_time(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 for a run that writes much, all the time, although its main thread does not wait for it."""
    run = logged.run_id(group)
    if run is None or not evidence.has_moved(run, STEPS_EVERY_S) or not evidence.is_warm(group):
        return None
    rates = [(evidence.still.steady_per_s(process, SPAN_S, PARTS)[0], process) for process in group.processes]
    written, process = max(rates, key=lambda item: item[0], default=(0.0, None))
    if process is None or written < WRITTEN_MIN_BYTES:
        return None
    read, moved = evidence.still.moved_bytes(process)
    if moved < TIMES_READ * read or not steps_go_on(evidence, group, run):
        return None
    names = sorted({PurePath(path).name for path in process.files_written})
    finding = tracked.about(
        group,
        "E07",
        "warning",
        "possible",
        "The run writes to disk all the time: checkpoints every few steps?",
        [
            Fact(
                f"for {SPAN_S:.0f} s, process {process.pid} has written {bytes_text(round(written))}/s or more",
                round(written),
                f"/proc/{process.pid}/io",
            ),
            *([Fact(f"open for writing: {', '.join(names[:3])}", names[0], f"/proc/{process.pid}/fd")] if names else []),
        ],
        "A thread or a process of the run writes while it trains. It competes for cores, memory and the disk, and the loop "
        "waits once a checkpoint is not written before the next one is due.",
        "if step % 1000 == 0 and rank == 0: save(...)  # or by the clock: every ten minutes\n"
        f"gputop run -- {fixes.own_command(group)}  # shows how long each checkpoint holds up the loop",
        "These files are what the run is for, such as features or videos, and the steps do not wait for them.",
        pids=(process.pid,),
    )
    return Suspicion(finding, HOLD_S)
