"""Imports the files of ended trainings as stored runs (``gputop runs import``): a journal each, as if gputop had recorded them.

A run's id is derived from the location of its files, and its journal gets their time. So importing files again gives the same
run, which is rewritten only if they have changed. A time that the files lack is 0 in the journal: unknown to readers.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

from gputop.errors import GputopError, UsageError
from gputop.jobs.output.follower import Backlog
from gputop.places import make_private_dir, runs_dir
from gputop.process import OUTPUT
from gputop.tracking.journal import format as form
from gputop.tracking.journal import places
from gputop.tracking.journal.writing.files import OpenJournal
from gputop.tracking.printed.transcript import Transcript
from gputop.untracked.about import About, about
from gputop.untracked.files.values import Parser, Value
from gputop.untracked.kinds import KINDS, MLFLOW, Kind, kind_of
from gputop.untracked.search import Found, grouped
from gputop.untracked.source import Source
from gputop.untracked.starts import newest_start
from gputop.untracked.walk import Bounds, walk

TAG = "imported"
"""The tag of every imported run."""
BOUNDS = Bounds(entries=1_000_000, entries_of_a_folder=1_000_000, seconds=60.0, files=10_000)
"""Wider than for a live search: the user waits for the result."""


class PrintedValues:
    """Follows one file. If several starts were appended to it, the newest one that its first piece shows begins the curve."""

    refused = False

    def __init__(self) -> None:
        self._transcript = Transcript(with_pace=True, with_bars=True)
        self._is_first = True

    def feed(self, data: bytes) -> list[Value]:
        """Return the values that are complete with these bytes; none has a time."""
        if self._is_first and data:
            self._is_first = False
            data = data[newest_start(data, True) :]
        return _values(self._transcript.feed(data))

    def skip(self, number: int) -> None:
        """Start over after bytes that were not read."""
        self._transcript.skip()
        self._is_first = False

    def end(self) -> list[Value]:
        """Return the values of a last line without a newline."""
        return _values(self._transcript.end())


def _values(steps: Iterable[tuple[int, Mapping[str, float]]]) -> list[Value]:
    return [Value(name, step, None, value) for step, metrics in steps for name, value in metrics.items()]


def _parser(path: Path) -> Parser:
    return PrintedValues()


PRINTED = Kind(
    OUTPUT,
    "any text file that is named",
    "anything that prints its loss",
    r"(?!)",
    _parser,
    Backlog(1 << 20, 32 << 20),
)
"""The kind of a file of output that the user names. No search finds one: any text may look like it."""


class Stored(NamedTuple):
    """The result of importing one source of a curve."""

    run_id: str
    name: str
    source: str
    root: Path
    outcome: Literal["imported", "updated", "unchanged", "empty"]
    """"empty": the files hold no value, and there is no run."""


def store(path: Path) -> Iterator[Stored]:
    """Import each source at or below ``path`` as a run, one after the other.

    Raises:
        UsageError: there is nothing at ``path`` that gputop reads.
        GputopError: the run cannot be written.
    """
    start = Path(os.path.realpath(path))
    found = sorted(_sources(start), key=lambda item: (str(item.root), item.kind.label))
    printed = _printed(start)
    found = found or printed
    if not found:
        raise _no_curve(path)
    root = places.archive_root(runs_dir())
    try:
        if root == runs_dir():
            make_private_dir(root)
        else:
            places.secure_dir(root)
        for item in found:
            said = about(item)
            name = said.name or (start.name if item.kind is PRINTED else _name(item.root, start))
            stored = _store(item, name, said, root)
            if stored.outcome == "empty" and printed:  # its name suggests another kind
                stored = _store(printed[0], start.name, About(), root)
            if stored.outcome == "empty" and item.kind is PRINTED:
                raise _no_curve(path)
            yield stored
    except OSError as error:
        raise GputopError(
            f"{error.filename or root} cannot be written: {error.strerror or error}.", "Free some space, or check who owns it."
        ) from error


def _no_curve(path: Path) -> UsageError:
    known = ", ".join(dict.fromkeys(kind.label for kind in KINDS))
    hint = f"It reads {known}, and files of output: docs/curves.md names the files, and the lines."
    return UsageError(f"{path} holds no curve that gputop reads.", hint)


def _printed(start: Path) -> list[Found]:
    """Return a file as text that a training has printed."""
    return [Found(PRINTED, start, {start: ""}, None, False)] if start.is_file() else []


def _sources(start: Path) -> list[Found]:
    if start.is_file():
        kind = kind_of(start.name)
        return list(grouped({start: kind}, {})) if kind is not None else []
    walked = walk([start], 0.0, None, BOUNDS)
    found = list(grouped(dict(walked.files), {}))
    return found + [Found(MLFLOW, root, dict.fromkeys(paths, ""), None, False) for root, paths in walked.runs_of_mlflow.items()]


def _name(root: Path, start: Path) -> str:
    """Return a name for a run without one: its folder below the given one, else the name of the given folder."""
    folder = root if root.is_dir() else root.parent
    inner = folder.relative_to(start).as_posix() if folder.is_relative_to(start) else "."
    return (folder.name if inner == "." else inner)[-200:] or root.name


def _store(item: Found, name: str, known: About, root: Path) -> Stored:
    digest = hashlib.sha256(f"{item.kind.label}\0{item.root}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
    run_id = f"import-{digest}"
    stamp = max((path.stat().st_mtime_ns for path in item.paths), default=0)
    kept = root / run_id / f"{form.file_stem(0, 0)}.gpr"
    before = kept.stat().st_mtime_ns if kept.is_file() else None
    if before == stamp:
        return Stored(run_id, name, item.kind.label, item.root, "unchanged")
    with tempfile.TemporaryDirectory(prefix="import-", dir=root.parent) as folder:
        written = _write(item, run_id, name, known, Path(folder))
        if written is None:
            return Stored(run_id, name, item.kind.label, item.root, "empty")
        os.utime(written, ns=(stamp, stamp))
        make_private_dir(kept.parent)
        os.replace(written, kept)
    return Stored(run_id, name, item.kind.label, item.root, "imported" if before is None else "updated")


def _write(item: Found, run_id: str, name: str, known: About, folder: Path) -> Path | None:
    """Write a journal below ``folder`` and return its path; None if there is no value to write."""
    opened: OpenJournal | None = None
    for values in _read(item.kind, item):
        if opened is None:
            opened = _open(values, run_id, folder)
            opened.journal.state("anchor", "clock", 0)  # the times that follow are wall clock
            opened.journal.state("card", "run", {"name": name})
            opened.journal.state("fact", "source", item.kind.label)
            opened.journal.state("fact", "tags", [TAG])
            for key, setting in {**known.config, "imported_from": str(item.root)}.items():
                opened.journal.state("config", key, setting)
        for (step, at), group in groupby(values, key=lambda value: (value.step, value.time)):
            opened.journal.defer({value.name: value.value for value in group}, step, at_ns=int((at or 0.0) * 1e9))
    if opened is None:
        return None
    opened.finish(form.FINISHED, None)
    if opened.journal.archive_state != form.ARCHIVE_GOOD:
        raise OSError(errno.EIO, "not all values could be stored", str(folder.parent))
    return opened.archive_path


def _read(kind: Kind, item: Found) -> Iterator[Sequence[Value]]:
    source, at_end = Source(kind, item.paths), False
    while not at_end:
        values, at_end = source.read(finished=True)
        if values:
            yield values


def _open(values: Sequence[Value], run_id: str, folder: Path) -> OpenJournal:
    began = min((value.time for value in values if value.time is not None), default=0.0)
    identity = form.Identity(
        run_id=run_id,
        rank=0,
        local_rank=None,
        world_size=None,
        restart_count=0,
        attempt=0,
        pid=0,
        start_ticks=0,
        pid_namespace=0,
        uid=os.geteuid(),
        boot_id="",
        hostname="",
        created_ns=int(began * 1e9),
    )
    return OpenJournal(identity, folder, thread=False)
