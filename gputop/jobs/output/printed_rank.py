"""Follows the output files of one rank and parses the printed metrics into points (``gputop.tracking.printed``).

Printed lines carry no time. Their points carry the time at which the line was read, or, for lines written before the first
poll, the time at which the file was last written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gputop.jobs.output.collected import Collected
from gputop.jobs.output.follower import Backlog, FileFollower
from gputop.snapshot import Rank
from gputop.tracking.printed.lines import SOURCE
from gputop.tracking.printed.transcript import Transcript


class PrintedFile:
    """One file of output, and the parser of its lines."""

    def __init__(self, path: Path, backlog: Backlog, newest_start: Callable[[bytes, bool], int] | None = None) -> None:
        """``newest_start``: returns where to begin in what was written before the first poll, and may be another run's."""
        self._newest_start = newest_start
        self.transcript = Transcript(with_pace=True, with_bars=True)
        self.at_end = False
        self._file = FileFollower(path, backlog)
        self._past = True
        """Whether the bytes being read were written before the first poll."""
        self._past_at: float | None = None
        """The one time of all that was written before it: with two, what took hours would have the pace of reading."""

    def read(self, finished: bool, max_bytes: int) -> tuple[list[tuple[int, dict[str, float]]], float]:
        """Return the steps and metrics of the new lines, and the time to record for them."""
        chunk = self._file.read(max_bytes, finished)
        if chunk.restarted:
            self.transcript = Transcript(with_pace=True, with_bars=True)
        if chunk.skipped_bytes:
            self.transcript.skip()
        data = chunk.data
        if data and self._newest_start is not None:
            data = data[self._newest_start(data, not chunk.skipped_bytes) :]
            self._newest_start = None
        steps = list(self.transcript.feed(data))
        if chunk.complete:
            steps += self.transcript.end()
        if self._past and self._past_at is None:
            self._past_at = chunk.written_at
        at = self._past_at if self._past and chunk.written_at is not None and self._past_at is not None else time.time()
        self._past = self._past and not (chunk.at_end and chunk.written_at is not None)
        self.at_end = chunk.at_end
        return steps, at


@dataclass(slots=True)
class PrintedRank(Collected):
    """What one rank has printed so far."""

    files: dict[Path, PrintedFile] = field(default_factory=dict)

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
        self.counts_lines = any(each.transcript.counts_lines for each in self.files.values())

    def rank(self, known: Rank) -> Rank:
        """Return ``known`` with the step and metrics that this rank printed, and their source."""
        return Collected.rank(self, replace(known, facts={"source": SOURCE}))
