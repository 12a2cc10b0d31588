"""One run as its ranks' journals show it: which are open, and the record that they make together."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from gputop.facts.table import Facts
from gputop.snapshot import FormatError, Rank, Run, worst
from gputop.tracking.journal.read import JournalReader
from gputop.tracking.reader import labels as run_labels
from gputop.tracking.reader.kept import KeptLog
from gputop.tracking.reader.labels import Labels
from gputop.tracking.reader.launched import recipe_of
from gputop.tracking.reader.rank_log import RankLog, merged
from gputop.tracking.reader.stopped import as_job_ended


class Stamp(NamedTuple):
    """What tells a file from another one in its place, and a file that changed."""

    inode: int
    modified_ns: int
    size: int


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return Stamp(found.st_ino, found.st_mtime_ns, found.st_size)


@dataclass(slots=True)
class Followed:
    """A run that is being followed."""

    run_id: str
    changed_ns: int = 0
    logs: dict[tuple[int, int], RankLog | KeptLog] = field(default_factory=dict)
    """By rank and attempt."""
    files: dict[Path, Stamp] = field(default_factory=dict)
    """Files that were opened, or found to be no journal, as they were then."""
    finished: Run | None = None
    """The run once all of its ranks are read to their end, before its job's record is read."""
    labels: Labels = run_labels.NONE
    labels_problem: str | None = None
    """Why they cannot be read: the file and the reason."""

    @property
    def alive(self) -> bool:
        """Whether the process of one of its ranks lives."""
        return any(log.alive for log in self.logs.values())

    def read_labels(self, directory: Path) -> None:
        """Read the labels in the run's directory; those that cannot be read count as none."""
        try:
            found, self.labels_problem = run_labels.read(directory), None
        except run_labels.UnreadableError as error:
            found, self.labels_problem = run_labels.NONE, str(error)
        if found != self.labels:
            self.labels, self.finished = found, None

    def leave_replaced(self, found: Sequence[Path]) -> bool:
        """Forget the journals in whose place is another one, and with these also those that are gone.

        Return whether to look again, because the file in the place of a journal cannot be read (yet).

        Args:
            found: the journals that the run's directory has now.
        """
        now = {key: self._successor(log) for key, log in self.logs.items() if log.archive in self.files}
        if "another" in now.values():
            gone = [key for key, log in self.logs.items() if log.archive is not None and log.archive not in found]
            for key in {*gone, *(key for key, there in now.items() if there == "another")}:
                log = self.logs.pop(key)
                log.close()
                if log.archive is not None:
                    self.files.pop(log.archive, None)
            self.finished = None
        return "unreadable" in now.values()

    def _successor(self, log: RankLog | KeptLog) -> Literal["itself", "another", "unreadable"]:
        """Return what is in a journal's place now."""
        assert log.archive is not None
        try:
            now, before = stamp_of(log.archive.lstat()), self.files[log.archive]
        except OSError:
            return "itself"  # it is gone, and what was read of it stays
        # The number of a file stays its own while it is open. Afterwards another file may get it.
        if now == before or (now.inode == before.inode and not log.done):
            return "itself"
        try:
            reader = JournalReader(log.archive)
        except (OSError, FormatError):
            return "unreadable"
        reader.close()
        self.files[log.archive] = now
        there = reader.header.identity
        return "itself" if (there.run_id, there.created_ns) == (self.run_id, log.identity.created_ns) else "another"

    def newest(self) -> list[RankLog | KeptLog]:
        """Return each rank's latest attempt, by rank."""
        latest = {rank: self.logs[rank, attempt] for rank, attempt in sorted(self.logs)}
        return list(latest.values())


def describe(followed: Followed) -> Run:
    """Return the record of a run. One that has ended keeps its record while its ranks' do not change."""
    logs = followed.newest()
    ranks = tuple(log.rank() for log in logs)
    finished, ended = followed.finished, all(log.done for log in followed.logs.values())
    if ended and finished is not None and _same(ranks, finished.ranks):
        return as_job_ended(finished)
    first = logs[0]
    ends = [log.ended_at() for log in logs]
    worlds = [rank.world_size for rank in ranks if rank.world_size is not None]
    every = sorted(followed.logs.items())
    job_id = first.text("job_id")
    own_tags = next((tags for rank in ranks if (tags := Facts(rank.facts).tags)), ())
    run = Run(
        run_id=followed.run_id,
        name=followed.labels.name or first.text("name") or followed.run_id,
        project=first.text("project"),
        job_id=job_id,
        state=worst(rank.state for rank in ranks),
        created_at=min(log.identity.created_ns for _, log in every) / 1e9 or None,
        ended_at=max((end for end in ends if end is not None), default=None) if all(ends) else None,
        world_size=max(worlds, default=None),
        config=merged([log.config for log in logs]),
        command=first.command,
        ranks=ranks,
        tags=tuple(followed.labels.tags(own_tags)),
        recipe=recipe_of(job_id) if job_id is not None else None,
    )
    followed.finished = run if ended else None
    return as_job_ended(run)


def _same(ranks: tuple[Rank, ...], known: tuple[Rank, ...]) -> bool:
    return len(ranks) == len(known) and all(map(operator.is_, ranks, known))
