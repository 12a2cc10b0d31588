"""Makes a run with points from the metrics in a log, for rules that judge them without a job.

It reads the lines that ``gputop.tracking.printed`` recognizes, and those that print a pace. Printed lines carry no time, so
their points carry the time at which the file was last written.
"""

from __future__ import annotations

import re
from pathlib import Path

from gputop.doctor.logs.meaning.each_rank import EachRank
from gputop.snapshot import Points, Rank, Run
from gputop.terminal_text import strip_escapes
from gputop.tracking.printed import rates
from gputop.tracking.printed.lines import LINE_CHARACTERS, SOURCE, parse
from gputop.tracking.printed.names import EVALUATION
from gputop.tracking.printed.transcript import Transcript

READ_BYTES = 1 << 20
"""How much is read at a time."""
RUN_ID = "log"
"""The id of the run that such a log shows."""
_BAR = re.compile(r"^(?P<name>[^|]*?)\d{1,3}%\|.*?(?<!\d)(?P<done>\d+)/(?P<total>\d+) \[")


def printed_run(path: Path) -> tuple[Run, tuple[Points, ...]] | None:
    """Return the run that a log shows, named after the file; None if it contains no metric, or is not a file to read again."""
    transcript = Transcript(with_bars=True)
    columns: dict[str, tuple[list[int], list[float]]] = {}
    paces = _Paces()
    try:
        if not path.is_file():  # a pipe has been read, and opening it again would wait for another writer
            return None
        with path.open("rb") as file:
            written_at = path.stat().st_mtime
            for data in iter(lambda: file.read(READ_BYTES), b""):
                paces.feed(data)
                _add(columns, transcript.feed(data))
    except OSError:
        return None
    paces.feed(b"\n")
    _add(columns, transcript.end())
    columns = {**columns, **paces.columns()}
    if not columns:
        return None
    metrics = {name: values[-1] for name, (_, values) in columns.items()}
    rank = Rank(0, state="running", world_size=1, metrics=metrics, facts={"source": SOURCE})
    run = Run(RUN_ID, path.name, state="running", world_size=1, ranks=(rank,))
    return run, tuple(
        Points(RUN_ID, 0, name, tuple(steps), (written_at,) * len(steps), tuple(values))
        for name, (steps, values) in columns.items()
    )


def printed_by_ranks(path: Path) -> EachRank:
    """Return what each rank prints of itself in a log; nothing if the file cannot be read again."""
    ranks = EachRank()
    try:
        if path.is_file():
            with path.open(encoding="utf-8", errors="replace") as file:
                ranks.read(map(strip_escapes, iter(lambda: file.readline(READ_BYTES), "")))
    except OSError:
        pass
    return ranks


def _add(columns: dict[str, tuple[list[int], list[float]]], found: object) -> None:
    for step, metrics in found:  # type: ignore[attr-defined]
        for name, value in metrics.items():
            steps, values = columns.setdefault(name, ([], []))
            steps.append(step)
            values.append(value)


class _Paces:
    """The pace in each line of a training, in order; of progress bars without a loss, only the one with the most lines."""

    def __init__(self) -> None:
        self._rest = ""
        self._columns: dict[str, list[float]] = {}
        self._bars: dict[tuple[str, str], list[float]] = {}

    def feed(self, data: bytes) -> None:
        """Process the complete lines."""
        *lines, self._rest = re.split(r"[\r\n]+", self._rest + data.decode("utf-8", "replace"))
        self._rest = self._rest[-LINE_CHARACTERS:]
        for line in lines:
            self._take(strip_escapes(line[:LINE_CHARACTERS]))

    def _take(self, line: str) -> None:
        for name, value in rates.whole_times(line).items():
            self._columns.setdefault(name, []).append(value)
        if EVALUATION.match(line):
            return
        found = rates.paces(line)
        bar = _BAR.match(line) if found else None
        if bar is not None and parse(line[bar.end() :]) is None:
            if "it_per_sec" in found:
                key = (re.sub(r"\d+", "", bar["name"]), bar["total"])
                self._bars.setdefault(key, []).append(found["it_per_sec"])
            return
        for name, value in found.items():
            self._columns.setdefault(name, []).append(value)

    def columns(self) -> dict[str, tuple[list[int], list[float]]]:
        """Return (numbers, values) by name."""
        found = dict(self._columns)
        if self._bars and "it_per_sec" not in found:
            found["it_per_sec"] = max(self._bars.values(), key=len)
        return {name: (list(range(1, len(values) + 1)), values) for name, values in found.items()}
