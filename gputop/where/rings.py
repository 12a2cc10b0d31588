"""The rings of a run's live ranks on this machine, and their reports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gputop.places import state_dir
from gputop.snapshot import Rank, Run
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity, places
from gputop.tracking.journal.read import open_checked
from gputop.tracking.standing import page
from gputop.wire import FormatError


class Ring:
    """An open ring of a live rank; or, if ``unnamed``, the memory in which a rank without a ring reports where it is."""

    def __init__(self, path: Path, descriptor: int, who: form.Identity, *, unnamed: bool = False) -> None:
        self.path = path
        self._asked = descriptor if unnamed else path
        self.identity = who
        self._descriptor = descriptor
        self.asked_ns = 0

    def ask(self) -> None:
        """Ask the rank to report where it is.

        Raises:
            OSError: the ring is gone.
        """
        self.asked_ns = page.ask(self._asked)

    def read(self) -> page.Page | None:
        """Return the rank's last report."""
        return page.parse(os.pread(self._descriptor, form.STANDING_BYTES, form.STANDING_OFFSET))

    def answer(self) -> page.Page | None:
        """Return its answer to the last question; None if it has not answered yet."""
        found = self.read()
        return found if found is not None and found.answered_ns >= self.asked_ns else None

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def rings_of(run: Run, runs_dir: Path | None = None) -> dict[int, Ring]:
    """Return rank -> its ring, for the live ranks of this machine; the caller closes them."""
    ranks = {rank.pid: rank for rank in run.ranks}
    found: dict[int, Ring] = {}
    for directory in places.live_dirs(runs_dir or state_dir() / "runs"):
        if not places.is_ours(directory):
            continue
        for path in sorted(directory.glob(f"{_escaped(run.run_id)}-rank-*.ring")):
            for ring in _open(path, run.run_id, ranks):
                if ring.identity.rank in found:
                    ring.close()
                else:
                    found[ring.identity.rank] = ring
    return found


def _open(path: Path, run_id: str, ranks: dict[int | None, Rank]) -> Iterator[Ring]:
    try:
        fd = open_checked(path)
    except OSError:
        return
    try:
        who = form.unpack_header(os.pread(fd, form.HEADER_BYTES, 0)).identity
        rank = ranks.get(who.pid)
        state = identity.process_state(who.pid)
        alive = state is not None and state[0] == who.start_ticks and who.pid_namespace == identity.pid_namespace()
        if who.run_id == run_id and rank is not None and rank.rank == who.rank and alive:
            yield Ring(path, fd, who)
            return
    except (OSError, FormatError):
        pass
    os.close(fd)


def _escaped(run_id: str) -> str:
    """Return a run id so that glob takes it literally."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in run_id)
