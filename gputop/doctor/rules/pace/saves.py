"""Checkpoints and other files that hold up the loop (E07): by the journal's times, and by waits that are seen from outside.

``torch.save`` alone may be quick: what takes the time is the flush after it (fsync), or a disk that does not keep up.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.snapshot import Process, is_training_loss, loss_metric
from gputop.units import bytes_text

SAVES = 40
SAVES_MIN = 8
"""Of the newest checkpoints, these many count, and as many must be known (our choice)."""
SPAN_MIN_S = 6.0
SAVE_MIN_S = 0.02
SAVE_LONG_S = 0.1
"""Shorter saves are those of a toy; from the second on, the finding may be more than possible (our choice)."""
OFTEN_STEPS = 20.0
"""Checkpoints that are further apart are those of an epoch or an evaluation (our choice)."""
SHARE_MIN = 0.25
SURE_SHARE = 0.4
"""From this share of the time, the finding is more than possible, as for evaluations (our choice)."""
SAVE_FIX = """\
if step % 1000 == 0 and rank == 0: torch.save(...)  # or by the clock: every ten minutes
from torch.distributed.checkpoint import async_save  # writes while training continues"""
SPAN_S = 30.0
PARTS = 3
"""The waits come again and again: some in each third of the span. A long checkpoint now and then does not count."""
SAMPLES_MIN = 15
WRITTEN_MIN_BYTES = 2**24
TIMES_READ = 4
"""It writes this many times as much as it reads: the process does not wait for its data."""
STEPS_EVERY_S = 10.0
"""Steps must be reported this often, all the time: a single checkpoint that takes long stops them (our choice)."""
HOLD_S = 5.0
FILE = "file"
PAUSES_MIN = 3
PAUSES_GAPS_MIN = 10
PAUSE_MIN_S, PAUSE_FACTOR = 2.5, 1.8
PAUSES_VARIATION = 0.25
"""Printed lines are read once a second. There are at least this many pauses, this long and this much longer than usual, after
about equally many steps each (our choice)."""
WRITES_SHARE = 0.8
"""The process writes in this share of the pauses, and this share of all that it writes is written then (our choice)."""
READ_S = 3.5
"""Disk counters are as old as two seconds, and losses as one: a write in a pause may seem this much longer."""
_FIX = """\
if step % 1000 == 0 and rank == 0: save(...)  # or by the clock: every ten minutes
from torch.distributed.checkpoint import async_save  # writes while training continues
os.fsync(...)  # only for a file that must survive a crash of the machine"""


def saves_too_often(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 by the times of checkpoints that come every few steps, and are no trifle."""
    for rank in tracked.ranks_of(group):
        saved = evidence.series(group.run_id, rank.rank, "checkpoint_s")[-SAVES:]
        if len(saved) < SAVES_MIN:
            continue
        span_s, steps = saved.times[-1] - saved.times[0], saved.steps[-1] - saved.steps[0]
        taken = [value for value in saved.values[1:] if math.isfinite(value)]
        if span_s < SPAN_MIN_S or not 0 < steps <= OFTEN_STEPS * (len(saved) - 1):
            continue
        mean_s = sum(taken) / max(1, len(taken))
        share, every = min(1.0, sum(taken) / span_s), steps / (len(saved) - 1)
        if share < SHARE_MIN or mean_s < SAVE_MIN_S:
            continue
        often = "every step" if every < 1.5 else f"every {units.count(every)} steps"
        finding = tracked.about(
            group,
            "E07",
            "warning",
            "likely" if share >= SURE_SHARE and mean_s >= SAVE_LONG_S else "possible",
            f"Checkpoints take {share:.0%} of the time: one {often}",
            [
                Fact(
                    f"{len(taken)} checkpoints took {units.duration(sum(taken))} of {units.duration(span_s)}",
                    round(share, 3),
                    "journal: checkpoint_s",
                ),
                Fact(
                    f"one {often}, from step {units.count(saved.steps[0])} to {units.count(saved.steps[-1])}",
                    steps,
                    "journal: checkpoint_s",
                ),
            ],
            "The loop waits while each checkpoint is written, and only the newest of them will be used.",
            SAVE_FIX,
            "The training is meant to save that often, or these are small files of something else.",
        )
        return Suspicion(finding, 3.0)
    return None


def writes_in_the_loop(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 by main threads that wait for files again and again, in a process that writes and hardly reads.

    The limits of its share of the samples are those of the share of time that ``torch.save`` takes.
    """
    run = logged.run_id(group)
    if run is None or not evidence.has_moved(run, STEPS_EVERY_S) or not evidence.is_warm(group):
        return None
    found = [item for member in group.members if (item := _share(evidence, member)) is not None]
    if not found or not steps_go_on(evidence, group, run):
        return None
    share, total, process = max(found, key=lambda item: item[0])
    read, written = evidence.still.moved_bytes(process)
    names = sorted({PurePath(path).name for path in process.files_written})
    facts = [
        Fact(
            f"the main thread of process {process.pid} waited for a file in {share:.0%} of {total} samples",
            round(share, 2),
            f"/proc/{process.pid}/syscall",
        ),
        Fact(f"it wrote {bytes_text(written)} to disk and read {bytes_text(read)}", written, f"/proc/{process.pid}/io"),
        *([Fact(f"open for writing: {', '.join(names[:3])}", names[0], f"/proc/{process.pid}/fd")] if names else []),
    ]
    finding = tracked.about(
        group,
        "E07",
        "warning",
        "likely" if share >= SURE_SHARE else "possible",
        f"Writing files takes {share:.0%} of the time: checkpoints every few steps",
        facts,
        "The loop waits while each checkpoint, or another file, is written and flushed to the disk (fsync), which may take far "
        "longer than torch.save itself.",
        _FIX,
        "The files must be on disk after each step, or another program keeps the disk busy.",
        pids=(process.pid,),
    )
    return Suspicion(finding, HOLD_S)


def pauses_while_it_writes(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 for an untracked run by when its losses come: at regular intervals, none comes while the process writes.

    The counters of /proc/<pid>/io say how much it writes. A cached file is written at once, and its flush to the disk follows.
    """
    run, now = logged.run_id(group), evidence.snapshot
    if group.run is not None or run is None or now is None:
        return None
    found = None
    for rank in logged.ranks_of(group):
        name = loss_metric(rank.metrics)
        if name is not None and is_training_loss(name):
            series = evidence.series(run, rank.rank, name)
            found = _pauses(list(zip(series.steps, series.times, strict=True)))
        if found is not None:
            break
    if found is None or found.share < SHARE_MIN:
        return None
    shift_s = now.time - now.monotonic_s
    writers = [member.process for member in group.members if member.process is not None]
    written = [(process, *_within(evidence, process, found, shift_s)) for process in writers]
    process, pauses, size = max(written, key=lambda item: item[2], default=(None, 0, 0))
    if process is None or pauses < WRITES_SHARE * len(found.pauses) or size < WRITTEN_MIN_BYTES:
        return None
    names = sorted({PurePath(path).name for path in process.files_written})
    each_s = found.paused_s / (len(found.pauses) - 1)
    finding = tracked.about(
        group,
        "E07",
        "warning",
        "likely" if found.share >= SURE_SHARE else "possible",
        f"Every {units.count(found.every)} steps the training stops to write a file: {found.share:.0%} of the time",
        [
            Fact(
                f"{len(found.pauses)} times, {units.count(found.every)} steps apart, no {name} came for "
                f"{units.duration(each_s)}; usually one comes every {units.duration(found.usual_s)}",
                round(each_s, 1),
                logged.source(group),
            ),
            Fact(
                f"in {pauses} of these pauses process {process.pid} wrote to disk, {bytes_text(size)} in all",
                size,
                f"/proc/{process.pid}/io",
            ),
            *([Fact(f"open for writing: {', '.join(names[:3])}", names[0], f"/proc/{process.pid}/fd")] if names else []),
        ],
        "The loop waits while a checkpoint, or another file, is written and flushed to the disk.",
        SAVE_FIX,
        "The training is meant to save that often.",
        pids=(process.pid,),
    )
    return Suspicion(finding, HOLD_S)


class _Pauses(NamedTuple):
    """The pauses between losses: their bounds (wall clock), how far they are apart, and their share of the time."""

    pauses: tuple[tuple[float, float], ...]
    every: float
    usual_s: float
    paused_s: float
    """Without the first one, before which the time is not counted either."""
    share: float


def _pauses(points: Sequence[tuple[int, float]]) -> _Pauses | None:
    """Return the pauses that come after equally many steps; None if there are too few, or they come at any time.

    Values that were read together have one time, that of the last of them.
    """
    marks: dict[float, int] = {}
    for step, time in points:
        marks[time] = max(step, marks.get(time, step))
    times = sorted(marks)[1:]  # the first time is that of all that was printed before the run was found
    gaps = list(itertools.pairwise(times))
    if len(gaps) < PAUSES_GAPS_MIN:
        return None
    usual_s = statistics.median(after - before for before, after in gaps)
    long = [(before, after) for before, after in gaps if after - before >= max(PAUSE_MIN_S, PAUSE_FACTOR * usual_s)]
    if len(long) < PAUSES_MIN:
        return None
    steps = [marks[before] for before, _ in long]
    whole_s = long[-1][1] - long[0][1]
    if whole_s <= 0 or not windows.regular(steps, PAUSES_VARIATION):
        return None
    paused_s = sum(after - before - usual_s for before, after in long[1:])
    every = (steps[-1] - steps[0]) / (len(steps) - 1)
    return _Pauses(tuple(long), every, usual_s, paused_s, paused_s / whole_s)


def _within(evidence: Evidence, process: Process, found: _Pauses, shift_s: float) -> tuple[int, int]:
    """Return in how many pauses a process wrote, and how much; nothing if it writes much at other times."""
    bursts = evidence.still.bursts(process)
    inside = [
        [item for item in bursts if item.began_s + shift_s > before - READ_S and item.ended_s + shift_s < after + READ_S]
        for before, after in found.pauses
    ]
    counted = {item for items in inside for item in items}
    first = found.pauses[0][0] - READ_S
    total = sum(item.bytes for item in bursts if item.ended_s + shift_s >= first)
    size = sum(item.bytes for item in counted)
    return (sum(map(bool, inside)), size) if size >= WRITES_SHARE * total else (0, 0)


def mostly_writes(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether a rank of the group waits for files that it writes: it does not wait for data."""
    return any(_share(evidence, member) is not None for member in group.members)


def steps_go_on(evidence: Evidence, group: RankGroup, run: str) -> bool:
    """Return whether a rank reported steps throughout the last ``SPAN_S``."""
    now = evidence.snapshot.time if evidence.snapshot is not None else 0.0
    for rank in logged.ranks_of(group):
        for metric in rank.metrics:
            times = [at for at in evidence.series(run, rank.rank, metric).times if at >= now - SPAN_S]
            edges = [now - SPAN_S, *times, now]
            if all(after - before <= STEPS_EVERY_S for before, after in itertools.pairwise(edges)):
                return True
    return False


def _share(evidence: Evidence, member: Member) -> tuple[float, int, Process] | None:
    process = member.process
    if process is None:
        return None
    read, written = evidence.still.moved_bytes(process)
    if written < WRITTEN_MIN_BYTES or written < TIMES_READ * read:
        return None
    samples = evidence.still.samples(process, SPAN_S)
    total = samples.total()
    if total < SAMPLES_MIN or samples[FILE] < SHARE_MIN * total:
        return None
    if not evidence.still.seen_in_each(process, FILE, SPAN_S, PARTS):
        return None
    return samples[FILE] / total, total, process
