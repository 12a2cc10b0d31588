"""The curves of one untracked run, combined from the files and the window that it writes to; reads on where each ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gputop.jobs.output.collected import Collected
from gputop.process import OUTPUT, ProcessRun, Repeated
from gputop.untracked.alike import Repeats
from gputop.untracked.kinds import IN_WINDOWS, LOG
from gputop.untracked.outputs import READ_BYTES, TAIL, OutputFile
from gputop.untracked.search import Found
from gputop.untracked.source import Source
from gputop.untracked.windows import terminals

if TYPE_CHECKING:
    from gputop.jobs.output.printed_rank import PrintedRank
    from gputop.untracked.logs import OpenLogs
    from gputop.untracked.windows.panes import PaneReader

BACKLOG_POINTS = 2000
"""How many points of a metric wait for the sampler; if there are more, they are thinned out."""
SOURCES = 16
"""Maximum number of sources read per run."""


class Key(NamedTuple):
    """Identifies a curve within a run: the label of its kind, and where it is stored."""

    label: str
    root: str


_LOGS = Key(LOG, "")


@dataclass(slots=True)
class Curve:
    """One curve: the values of its ranks, and where they come from."""

    key: Key
    certain: bool = True
    contested: bool = False
    ranks: dict[int, Collected] = field(default_factory=dict)
    files: dict[int, tuple[Path, ...]] = field(default_factory=dict)
    identities: frozenset[tuple[int, int]] = frozenset()
    """Device and inode of output files and terminals, to detect that two runs print to the same one."""


@dataclass(slots=True)
class _Read:
    """A source with its curve and the rank that it belongs to."""

    source: Source
    curve: Curve
    rank: int


class RunCurves:
    """The curves of a run. One thread reads; the others take curves and change them under ``lock`` only."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_key: dict[Key, Curve] = {}
        self.pane: PaneReader | None = None
        self.logs: OpenLogs | None = None
        self._reads: dict[tuple[str, Path], _Read] = {}
        self._printed: dict[int, PrintedRank] = {}
        self._repeats = Repeats()

    @property
    def has_files(self) -> bool:
        """Whether a file of the run is known."""
        return bool(self._reads or self._printed or self.logs)

    @property
    def has_values(self) -> bool:
        """Whether there is a curve with values other than that of a pane."""
        others = [curve for key, curve in self.by_key.items() if key.label not in IN_WINDOWS.values()]
        return any(collected.metrics for curve in others for collected in curve.ranks.values())

    @property
    def repeated(self) -> Repeated | None:
        """How often the only output contains each loss; None if there are several."""
        return self._repeats.found if len(self.printed_files) == 1 else None

    @property
    def printed_files(self) -> tuple[str, ...]:
        """The files that the run prints to."""
        return tuple(dict.fromkeys(str(path) for rank in list(self._printed.values()) for path in list(rank.files)))

    def take_in(
        self,
        found: Sequence[Found],
        printed: Mapping[int, tuple[OutputFile, ...]],
        logs: Mapping[int, tuple[OutputFile, ...]],
        first_rank: int,
    ) -> None:
        """Follow what a search found instead of what the one before found.

        Args:
            found: the files of training libraries.
            printed: the output files, by rank.
            logs: the text logs that are open, by rank.
            first_rank: the rank to which a source belongs that names none.
        """
        with self.lock:
            self._take_in_sources(found, first_rank)
            self._take_in_output(printed)
            self._take_in_logs(logs)

    def read_on(self, until: float) -> None:
        """Read on in the files that are known, until ``until`` on the steady clock."""
        self._read_sources(until)
        for rank in self._printed.values():
            for file in list(rank.files.values()):
                steps, at = file.read(False, READ_BYTES)
                with self.lock:
                    rank.take_in(file, steps, at)
                for _, metrics in steps:
                    self._repeats.add(metrics)
        if self.logs is not None:
            self.logs.read(self.lock)
            with self.lock:
                self.by_key[_LOGS].files = dict(self.logs.files)

    def read_pane(self, run: ProcessRun) -> None:
        """Read the pane that the run prints to, if there is one that can be read."""
        printed_to = terminals.terminals_of(run)
        if not printed_to:
            return
        from gputop.untracked.windows.panes import PaneReader, pane_of

        pane = pane_of(printed_to)
        if pane is None:
            return
        from gputop.jobs.output.printed_rank import PrintedRank

        if self.pane is None or self.pane.pane != pane:
            self.pane = PaneReader(pane)
        steps, at = self.pane.read(), time.time()
        key = Key(IN_WINDOWS[pane.program], pane.name)
        with self.lock:
            curve = self.by_key.setdefault(key, Curve(key, identities=frozenset((pane.identity,))))
            rank = curve.ranks.setdefault(min((rank.rank or 0 for rank in run.ranks), default=0), PrintedRank())
            for step, metrics in steps:
                rank.add(step, metrics, at, BACKLOG_POINTS)

    def _read_sources(self, until: float) -> None:
        for read in list(self._reads.values()):
            at_end = False
            while not at_end and time.monotonic() < until:
                values, at_end = read.source.read()
                with self.lock:
                    collected = read.curve.ranks.setdefault(read.rank, Collected())
                    collected.total_steps, collected.counts_lines = read.source.total_steps, read.source.counts_lines
                    for value in values:
                        collected.add(value.step, {value.name: value.value}, value.time or 0.0, BACKLOG_POINTS)

    def _take_in_sources(self, found: Sequence[Found], first_rank: int) -> None:
        """Combine the sources into curves: sources of one kind, one per rank, are one curve."""
        known, self._reads = self._reads, {}
        curves: dict[Key, Curve] = {}
        places: dict[tuple[str, int], int] = {}
        leaders: dict[tuple[str, int], Key] = {}
        for item in sorted(found, key=lambda item: (not item.certain, item.rank or 0, str(item.root)))[:SOURCES]:
            rank = first_rank if item.rank is None else item.rank
            key = Key(item.kind.label, str(item.root))
            if item.certain:
                place = places[item.kind.label, rank] = places.get((item.kind.label, rank), -1) + 1
                key = leaders.setdefault((item.kind.label, place), key)
            curve = curves.setdefault(key, self.by_key.get(key) or Curve(key))
            curve.certain, curve.contested = item.certain, item.contested
            before = known.get((item.kind.label, item.root))
            source = before.source if before is not None and before.curve is curve else Source(item.kind, item.paths)
            source.update(item.paths)
            curve.files[rank] = source.paths
            self._reads[item.kind.label, item.root] = _Read(source, curve, rank)
        kept = {key: curve for key, curve in self.by_key.items() if key.label in (OUTPUT, LOG, *IN_WINDOWS.values())}
        self.by_key = curves | kept

    def _take_in_output(self, printed: Mapping[int, tuple[OutputFile, ...]]) -> None:
        if not printed and not self._printed:
            return
        from gputop.jobs.output.printed_rank import PrintedFile, PrintedRank
        from gputop.untracked.starts import newest_start

        for number, files in printed.items():
            rank = self._printed.setdefault(number, PrintedRank())
            for file in files:
                rank.files.setdefault(file.path, PrintedFile(file.path, TAIL, newest_start))
        key = Key(OUTPUT, "")
        curve = self.by_key.setdefault(key, Curve(key))
        curve.ranks = dict(self._printed)
        curve.files = {number: tuple(rank.files) for number, rank in self._printed.items()}
        curve.identities = frozenset(file.identity for files in printed.values() for file in files)

    def _take_in_logs(self, found: Mapping[int, tuple[OutputFile, ...]]) -> None:
        if self.logs is None:
            if not found:
                return
            from gputop.untracked.logs import OpenLogs

            self.logs = OpenLogs()
        self.logs.take_in(found)
        curve = self.by_key.setdefault(_LOGS, Curve(_LOGS))
        curve.ranks, curve.identities = dict(self.logs.ranks), self.logs.identities
