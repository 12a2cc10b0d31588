"""A first GPU that holds far more than the others and works more, in a table of nvidia-smi: nn.DataParallel. Pure."""

from __future__ import annotations

import statistics

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.gpus.smi_table import SmiTable, serves
from gputop.doctor.logs.numbers.texts import FIRST_GPU
from gputop.units import bytes_text

HELD_MIN_MIB, WITHIN = 1024, 0.1
"""Each of the others holds at least this much, and they differ by at most this share (our choice)."""
TIMES, BUSIER_PERCENT = 1.4, 20
"""The first one holds this many times as much, and is busier by this many percentage points (our choice)."""


def does_more(table: SmiTable) -> Finding | None:
    """B07: GPU 0 holds and does more than the others, all of which work on the same."""
    if len(table.gpus) < 2 or set(table.gpus) != set(range(len(table.gpus))):
        return None
    first, *others = (table.gpus[number] for number in sorted(table.gpus))
    held = [gpu.mebibytes for gpu in others]
    usual = statistics.median(held)
    if min(held) < HELD_MIN_MIB or max(held) - min(held) > WITHIN * usual or first.mebibytes < TIMES * usual:
        return None
    if first.percent < max(gpu.percent for gpu in others) + BUSIER_PERCENT or not _may_be_one_process(table):
        return None
    times, rest = first.mebibytes / usual, words.agree(len(others), "the other", "the others")
    return Finding(
        id="B07",
        severity="warning",
        confidence="possible",
        title=f"GPU 0 holds {times:.1f} times as much memory as {rest}, and works more",
        evidence=tuple(
            Fact(
                f"GPU {number}: {gpu.percent}%, {bytes_text(gpu.mebibytes << 20)} in use", gpu.percent, "nvidia-smi, in the log"
            )
            for number, gpu in sorted(table.gpus.items())[:4]
        ),
        cause=FIRST_GPU.cause,
        fix=FIRST_GPU.fix,
        refuted_by="Different programs use these GPUs, or the model is split over them.",
    )


def _may_be_one_process(table: SmiTable) -> bool:
    """Return whether one process may use all GPUs: a table that lists processes lists it on each."""
    listed = [set(on_gpu) for on_gpu in table.pids.values() if on_gpu]
    names = {name for on_gpu in table.pids.values() for name, _ in on_gpu.values()}
    return not any(map(serves, names)) and (not listed or (len(listed) > 1 and bool(set.intersection(*listed))))
