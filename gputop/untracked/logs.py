"""The text logs that the ranks of an untracked run hold open (logging, loguru, hydra): read as their output is.

A log may contain something else, such as a model's answers: if it grows for long without a value, it is no longer read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from gputop.jobs.output.follower import size_bytes
from gputop.jobs.output.printed_rank import PrintedFile, PrintedRank
from gputop.untracked.outputs import READ_BYTES, TAIL, OutputFile
from gputop.untracked.starts import newest_start

PATIENCE_BYTES = 1 << 20
"""A log that grows by this much without a value is dropped."""


class OpenLogs:
    """The logs of one run, and what was read from them. Other threads may read ``ranks`` only under the run's lock."""

    def __init__(self) -> None:
        self.ranks: dict[int, PrintedRank] = {}
        self.identities: frozenset[tuple[int, int]] = frozenset()
        self._found_bytes: dict[Path, int] = {}
        """The size of each log when it was found."""
        self._with_values: set[Path] = set()

    @property
    def files(self) -> dict[int, tuple[Path, ...]]:
        """The logs that contain values, by rank."""
        named = {number: tuple(path for path in rank.files if path in self._with_values) for number, rank in self.ranks.items()}
        return {number: paths for number, paths in named.items() if paths}

    def take_in(self, found: Mapping[int, tuple[OutputFile, ...]]) -> None:
        """Follow the logs that were found, and drop those without values. Call it with the run's lock held."""
        for number, files in found.items():
            rank = self.ranks.setdefault(number, PrintedRank())
            for file in files:
                self._found_bytes.setdefault(file.path, size_bytes(file.path))
                rank.files.setdefault(file.path, PrintedFile(file.path, TAIL, newest_start))
        for rank in self.ranks.values():
            for path in [path for path in rank.files if self._is_something_else(path)]:
                del rank.files[path]
        self.identities = frozenset(file.identity for files in found.values() for file in files)

    def _is_something_else(self, path: Path) -> bool:
        return path not in self._with_values and size_bytes(path) > self._found_bytes[path] + PATIENCE_BYTES

    def read(self, lock: threading.Lock) -> None:
        """Read the next piece of each; ``lock``: that of the run."""
        for rank in self.ranks.values():
            for path, file in rank.files.items():
                steps, at = file.read(False, READ_BYTES)
                with lock:
                    rank.take_in(file, steps, at)
                    if steps:
                        self._with_values.add(path)
