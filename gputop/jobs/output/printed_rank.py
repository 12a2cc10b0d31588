"""Follows the output files of one rank and parses the printed metrics into points (``gputop.tracking.printed``).

Printed lines carry no time. Their points carry the time at which the line was read, or, for lines written before the first
poll, the time at which the file was last written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gputop.facts.setup import Progress
from gputop.jobs.output.collected import Collected
from gputop.jobs.output.follower import Backlog, FileFollower
from gputop.snapshot import Rank
from gputop.tracking.printed.lines import SOURCE, Transcript


class PrintedFile:
    """One file of output, and the parser of its lines."""

    def __init__(self, path: Path, backlog: Backlog) -> None:
        self.transcript = Transcript(with_pace=True)
        self.at_end = False
        self._file = FileFollower(path, backlog)
        self._past = True
        """Whether the bytes being read were written before the first poll."""

    def read(self, finished: bool, max_bytes: int) -> tuple[list[tuple[int, dict[str, float]]], float]:
        """Return the steps and metrics of the new lines, and the time to record for them."""
        look = self._file.look(max_bytes, finished)
        if look.restarted:
            self.transcript = Transcript(with_pace=True)
        if look.skipped_bytes:
            self.transcript.skip()
        steps = list(self.transcript.feed(look.data))
        if look.complete:
            steps += self.transcript.end()
        at = look.written_at if self._past and look.written_at is not None else time.time()
        self._past = self._past and not (look.at_end and look.written_at is not None)
        self.at_end = look.at_end
        return steps, at


@dataclass(slots=True)
class PrintedRank(Collected):
    """What one rank has printed so far."""

    files: dict[Path, PrintedFile] = field(default_factory=dict)
    total_steps: int | None = None

    def poll(self, ended: bool, max_bytes: int) -> bool:
        """Read the next bytes of each file; return whether all were read to their end. ``ended``: no more will be written."""
        for file in self.files.values():
            self.take_in(file, *file.read(ended, max_bytes))
        return all(file.at_end for file in self.files.values())

    def take_in(self, file: PrintedFile, steps: Sequence[tuple[int, Mapping[str, float]]], at: float) -> None:
        """Process what was read from one file."""
        for step, metrics in steps:
            self.add(step, metrics, at)
        self.total_steps = file.transcript.total_steps or self.total_steps

    def rank(self, known: Rank) -> Rank:
        """Return ``known`` with the step and metrics that this rank printed, and their source."""
        progress = {"progress": Progress.filled(total_steps=self.total_steps)} if self.total_steps else {}
        facts = {"source": SOURCE, **progress}
        return replace(Collected.rank(self, known), facts=facts)
