"""The log files of a job and their lines: the end of a large file, then each new line, in bounded memory.

Programs write logs for a terminal. Here they become plain lines: escape sequences are removed, and a carriage return
restarts its line, so that a progress bar is one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputop.jobs import record
from gputop.jobs.output.follower import DISPLAY, Backlog, FileFollower
from gputop.terminal_text import strip_controls

LAUNCHER = "launcher"
SLURM = "slurm"
LINE_CHARS = 4_000
"""Longer lines are cut."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file of a job's output. ``rank`` is None for the launcher's own, and for those of a Slurm job.

    ``local``: the job is one node of several, so that ``rank`` is the local rank; torchrun numbers the nodes as they come.
    """

    label: str
    path: Path
    rank: int | None = None
    local: bool = False


def sources(job_id: str) -> tuple[Source, ...]:
    """Return the files of a job's output: the launcher's, then those of each rank in its newest attempt.

    Raises:
        UsageError: there is no such job.
    """
    directory = record.job_dir(job_id)
    if (directory / record.NODES).is_dir():
        return _slurm_sources(directory, (record.read_json(directory / record.SPEC) or {}).get("slurm"))
    files = _rank_files(directory / record.RANKS)
    local = bool(files) and ((record.read_json(directory / record.SPEC) or {}).get("nodes") or 1) != 1
    ranks = [Source(f"local rank {rank}" if local else f"rank {rank}", path, rank, local) for rank, path in files]
    return (Source(LAUNCHER, directory / record.OUT_LOG), *ranks)


def _slurm_sources(directory: Path, slurm: Any) -> tuple[Source, ...]:
    """Return the file that Slurm writes, if known, and those of each node's ranks, if the nodes share our directory."""
    output = slurm.get("output") if isinstance(slurm, dict) else None
    found = [Source(SLURM, Path(output))] if isinstance(output, str) else []
    for node in sorted(directory.glob(f"{record.NODES}/*")):
        found += [Source(f"{node.name} local rank {rank}", path) for rank, path in _rank_files(node)]
    return tuple(found)


def _rank_files(folder: Path) -> list[tuple[int, Path]]:
    """Return the local rank and the path of each file of the newest attempt in torchrun's log directory."""
    found: dict[tuple[int, str], tuple[int, Path]] = {}
    # torchrun's layout: <rendezvous id>_<random>/attempt_<k>/<local rank>/stdout.log
    for path in folder.glob("*/attempt_*/*/std*.log"):
        attempt, rank = path.parts[-3].removeprefix("attempt_"), path.parts[-2]
        if attempt.isdigit() and rank.isdigit():
            key = (int(rank), path.stem)
            found[key] = max(found.get(key, (-1, path)), (int(attempt), path))
    files = [(rank, path) for (rank, _), (_, path) in sorted(found.items(), reverse=True)]
    return sorted(files, key=lambda file: file[0])


class LogFollower:
    """Returns the lines that a job has written since the last poll. Holds at most ``max_bytes`` of each file."""

    def __init__(self, job_id: str, label: str | None = None, max_bytes: int = DISPLAY.tail_bytes) -> None:
        record.job_dir(job_id)
        self.job_id = job_id
        self.label = label
        self._max_bytes = max_bytes
        self._files: dict[Path, _Lines] = {}
        self._sources: tuple[Source, ...] = ()

    def poll(self) -> list[str]:
        """Return the lines completed since the last poll; the first poll returns the end of the files.

        Raises:
            UsageError: the job is gone.
        """
        self._sources = _chosen(sources(self.job_id), self.label)
        lines: list[str] = []
        for source in self._sources:
            reader = self._files.setdefault(source.path, _Lines(source.path, self._max_bytes))
            lines += _labeled(source, reader.poll(), len(self._sources))
        return lines

    @property
    def pending(self) -> str:
        """The unfinished last line, such as a running progress bar; "" if there is none."""
        for source in reversed(self._sources):
            text = self._files[source.path].pending
            if text:
                return _labeled(source, [text], len(self._sources))[0]
        return ""


class _Lines:
    """The lines of one file as they are completed."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._file = FileFollower(path, Backlog(0, max_bytes))
        self._unfinished = b""
        self._opened = False

    @property
    def pending(self) -> str:
        """The unfinished last line; "" if there is none."""
        return clean_line(self._unfinished)

    def poll(self) -> list[str]:
        """Return the new lines, after a note on what was skipped, if anything."""
        chunk = self._file.read(self._max_bytes)
        notes: list[str] = []
        if chunk.restarted:
            notes.append("… the log was cut or replaced; it continues here")
        if chunk.skipped_bytes and self._opened:
            notes.append(f"… {chunk.skipped_bytes} bytes skipped")
        if chunk.restarted or chunk.skipped_bytes:
            self._unfinished = b""
        self._opened = self._opened or chunk.written_at is not None
        *whole, self._unfinished = (self._unfinished + chunk.data).split(b"\n")
        self._unfinished = self._unfinished[-self._max_bytes :]  # a line may never end
        return notes + [clean_line(line) for line in whole]


def clean_line(raw: bytes) -> str:
    """Return what a terminal would show of a line: the text after its last carriage return, without escapes and controls."""
    parts = raw.rstrip(b"\r").split(b"\r")
    text = strip_controls(parts[-1].decode("utf-8", "replace")).replace("\n", "").expandtabs(8)
    return text if len(text) <= LINE_CHARS else text[: LINE_CHARS - 1] + "…"


def _chosen(files: tuple[Source, ...], label: str | None) -> tuple[Source, ...]:
    """Return the files with this label; None: all."""
    return files if label is None else tuple(source for source in files if source.label == label)


def _labeled(source: Source, lines: list[str], files: int) -> list[str]:
    return [f"[{source.label}] {line}" for line in lines] if files > 1 else lines
