"""A first pass over the data whose process keeps what it reads: a later pass may not wait for it (D01)."""

from __future__ import annotations

import itertools
from enum import Enum, auto

from gputop.doctor.evidence.data_waits import is_first_pass
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.process import Process
from gputop.units import bytes_text

READINGS = 4
"""Memory is read every 5 s. It grows steadily if it grows between this many readings in a row (our choice)."""
KNOWN_S = 20.0
"""How long it takes until this many readings are known."""
LOOK_BACK = 10
"""Such growth counts for this many readings, until there are enough steps of the second pass (our choice)."""
EACH_BYTES = 8 << 20
"""The least growth from one reading to the next: batches of other sizes change the memory by less (our choice)."""


class Keeping(Enum):
    """Whether the training processes keep what they read."""

    NO = auto()
    NOT_KNOWN = auto()
    YES = auto()


def keeps_what_it_reads(evidence: Evidence, group: RankGroup) -> tuple[Keeping, list[Fact]]:
    """Return whether a group in its first pass over the data grows in memory all the time, and the facts that show it.

    Only the training process counts: what a worker keeps is gone when it restarts.
    """
    if not is_first_pass(evidence, group):
        return Keeping.NO, []
    processes = [member.process for member in group.members if member.process is not None]
    found = [_growth_bytes(evidence, process) for process in processes]
    if not found or None in found:
        return Keeping.NOT_KNOWN, []
    grown = min(value for value in found if value is not None)
    if grown <= 0:
        return Keeping.NO, []
    text = f"it is the first pass over the data, and the process has grown by {bytes_text(grown)} in {KNOWN_S - 5:.0f} s"
    return Keeping.YES, [Fact(text, grown, "/proc; journal: epoch")]


def _growth_bytes(evidence: Evidence, process: Process) -> int | None:
    """Return the most by which a process lately grew, reading by reading; 0 if it did not, None if unknown.

    A longer course is kept as means of neighboring readings, in which steady growth is steady, too.
    """
    sizes = [reading.mean for reading in evidence.memory_growth.in_host(process)[-LOOK_BACK:]]
    if len(sizes) < READINGS:
        return None
    grown = [0.0]
    for end in range(READINGS, len(sizes) + 1):
        course = sizes[end - READINGS : end]
        if all(after - before >= EACH_BYTES for before, after in itertools.pairwise(course)):
            grown.append(course[-1] - course[0])
    return int(max(grown))
