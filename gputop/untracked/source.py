"""One source of a curve: files of one kind that belong together, read as they grow."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from gputop.jobs.output.follower import FileFollower
from gputop.untracked.files.mlflow_database import DatabaseFile
from gputop.untracked.files.values import Value, metric_name
from gputop.untracked.kinds import MLFLOW_DATABASE, TRAINER_STATE, Kind


class CurveFile:
    """One file. If it is rewritten with its earlier values, only the new ones are passed on."""

    def __init__(self, path: Path, kind: Kind, prefix: str = "") -> None:
        self.path = path
        self._kind = kind
        self._prefix = prefix
        self._passed_on: Counter[str] = Counter()
        self._begin(path)

    def _begin(self, path: Path) -> None:
        self.path = path
        self._follower = FileFollower(path, self._kind.backlog)
        self._past = True
        """Whether the bytes being read were written before the first reading."""
        self._past_at: float | None = None
        self._restart()

    def _restart(self) -> None:
        assert self._kind.parser is not None
        self._parser = self._kind.parser(self.path)
        self._again = Counter(self._passed_on) if self._kind.rewritten else Counter()

    def move_to(self, path: Path) -> None:
        """Continue with another file that holds the same values and later ones."""
        if path != self.path:
            self._begin(path)

    def read(self, finished: bool = False) -> tuple[list[Value], bool]:
        """Return new values, and whether the file is read to its end. Never raises on its contents.

        A value without a time gets the time at which the file was last written. All values written before the first reading get
        the same time, so that the pace of reading is not mistaken for the run's. ``finished``: nothing writes the file any
        more, so that time does not apply, and the value has none.
        """
        if self._parser.refused:
            return [], True
        chunk = self._follower.read(self._kind.read_bytes, finished)
        if chunk.restarted:
            self._restart()
        if chunk.skipped_bytes:
            self._parser.skip(chunk.skipped_bytes)
        found = self._parser.feed(chunk.data) if chunk.data else []
        if chunk.complete:
            found += self._parser.end()
        if self._past and self._past_at is None:
            self._past_at = chunk.written_at
        written_at = self._past_at if self._past and self._past_at is not None else chunk.written_at
        self._past = self._past and not (chunk.at_end and chunk.written_at is not None)
        at = None if finished else written_at if written_at is not None else time.time()
        return [self._complete(value, at) for value in found if self._is_new(value.name)], chunk.at_end

    @property
    def counts_lines(self) -> bool:
        """Whether its steps are counted lines, because none of them shows a step."""
        return bool(getattr(self._parser, "counts_lines", False))

    @property
    def total_steps(self) -> int | None:
        """The number of steps of the training, if the file shows it."""
        found: int | None = getattr(self._parser, "total_steps", None)
        return found

    def _is_new(self, name: str) -> bool:
        if not self._kind.rewritten:
            return True
        if self._again[name] > 0:
            self._again[name] -= 1
            return False
        self._passed_on[name] += 1
        return True

    def _complete(self, value: Value, at: float | None) -> Value:
        name = (metric_name(self._prefix + value.name) or value.name) if self._prefix else value.name
        return value._replace(name=name, time=at if value.time is None else value.time)


class Source:
    """The files of one kind that make one curve of one rank. ``paths``: path -> the prefix of its metrics' names; of a
    database, the id of the run.
    """

    def __init__(self, kind: Kind, paths: Mapping[Path, str]) -> None:
        self.kind = kind
        self._files: dict[Path, CurveFile | DatabaseFile] = {}
        self.update(paths)

    def update(self, paths: Mapping[Path, str]) -> None:
        """Update the list of files; a file that is gone is dropped."""
        if self.kind is TRAINER_STATE:
            newest = next(reversed(tuple(paths)), None)
            if newest is not None:
                file = next((known for known in self._files.values() if isinstance(known, CurveFile)), None)
                file = file or CurveFile(newest, self.kind)
                file.move_to(newest)
                self._files = {newest: file}
            return
        known = self._files
        self._files = {path: known.get(path) or self._file(path, prefix) for path, prefix in paths.items()}

    def _file(self, path: Path, prefix: str) -> CurveFile | DatabaseFile:
        return DatabaseFile(path, prefix) if self.kind is MLFLOW_DATABASE else CurveFile(path, self.kind, prefix)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files."""
        return tuple(self._files)

    @property
    def counts_lines(self) -> bool:
        """Whether its steps are counted lines."""
        return any(file.counts_lines for file in self._files.values())

    @property
    def total_steps(self) -> int | None:
        """The number of steps of the training, if a file shows it."""
        return next((total for file in self._files.values() if (total := file.total_steps) is not None), None)

    def read(self, finished: bool = False) -> tuple[list[Value], bool]:
        """Return the new values of one piece of each file, and whether all are read to their end."""
        found: list[Value] = []
        at_end = True
        for file in self._files.values():
            values, ended = file.read(finished)
            found += values
            at_end = at_end and ended
        return found, at_end
