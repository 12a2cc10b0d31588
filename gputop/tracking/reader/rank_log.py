"""What one journal has recorded so far: latest metrics and facts, the state of its process, and points not yet passed on."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputop.facts.standing import Standing
from gputop.losses import beside
from gputop.snapshot import LIVE_STATES, FormatError, Points, Rank, RunState
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.journal.read import JournalReader, salvage
from gputop.tracking.reader.decimate import Decimator
from gputop.tracking.reader.namespaces import is_alive, is_elsewhere, is_gone, is_left, pid_here
from gputop.tracking.reader.numbering import Numbering
from gputop.tracking.reader.own_lines import SeenLines
from gputop.tracking.standing import page

STATEMENTS_MAX = 10_000
UNHEARD_S = 300.0
"""A journal of another machine that has not grown for this long counts as unheard. Automatic tracking writes with every step;
an evaluation, or a file server's caches, may take minutes."""
SILENT_S = 10.0
"""A journal of another PID namespace of this machine that has not grown for this long may have ended."""
LEFT_S = 86400.0
"""After this long, it is no longer followed."""
STANDING, OWN_LINES = "standing", "own_lines"
"""The facts that are read from the ring's page."""
TEXTS, TEXT_CHARACTERS = 20, 500
"""How many of the last lines of text are kept, and how much of each."""


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text that a rank recorded. ``time``: wall clock, seconds since the epoch."""

    time: float
    level: str
    message: str


_TRAINING = "training"
"""Which of several consecutive trainings this is, a whole number, from the second one's first step on."""


class RankLog:
    """Follows one rank's journal (one attempt) until its process has ended and the journal is read to its end.

    A process of another machine is not looked up here: only its journal says whether it ended or is still heard from. Such a
    journal is only read.
    """

    def __init__(self, archive: Path | None, ring: Path | None = None, *, shared: bool = False) -> None:
        """Open the journal. ``shared``: it lies where other machines may write, so that equal names of hosts mean nothing.

        Raises:
            OSError, FormatError: the journal cannot be read.
        """
        self.reader = JournalReader(archive, ring)
        self.identity = self.reader.header.identity
        self.archive = archive
        partner = self.reader.header.partner
        self.ring = ring if archive is None else (Path(partner) if partner else None)
        self.card: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}
        self.metrics: dict[str, float] = {}
        self.texts: deque[Text] = deque(maxlen=TEXTS)
        self._numbering = Numbering()
        self.last_log_at: float | None = None
        self.state: RunState = "starting"
        self.exit_code: int | None = None
        self.done = False
        self._caught_up = False
        self.elsewhere = is_elsewhere(self.identity, shared=shared)
        self._shared = shared
        self._pid_here: int | None = None
        """If it belongs to another PID namespace: its process's PID in this one, while that process lives and is visible."""
        self._has_ended = False
        """Whether it belongs to another PID namespace, and its process was seen here until it ended."""
        self._is_gone = False
        """Whether it belongs to a PID namespace below this one, and no process here is its own. A process in its own time
        namespace may still be alive, so this counts only for a silent journal."""
        self._stamp: tuple[int, int] | None = None
        self._heard_at = time.monotonic() - self._first_age_s()
        self._shift = _clock_shift(self.identity)
        self._fresh: dict[str, Decimator] = {}
        self._limit: int | None = 0
        self._rank: Rank | None = None
        self._seen_lines = SeenLines()
        self._page = b""
        self._said: Standing | None = None
        self.judge()
        if self.elsewhere and self.alive:
            self._pid_here = pid_here(self.identity)
            if self._pid_here is None and is_gone(self.identity):
                self._is_gone = True
                self.judge()
            self._look_who_writes()

    @property
    def alive(self) -> bool:
        """Whether its process is (or may be) alive."""
        return self.state in LIVE_STATES

    @property
    def read_to_end(self) -> bool:
        """Whether all of the journal was read, and no error ended the reading."""
        return self._caught_up

    def poll(self, budget: int, backlog_points: int | None, poll_points: int) -> int:
        """Read new records, at most about ``budget`` bytes; return how many bytes were read. None: keep no points."""
        if self.done:
            return 0
        self._limit = poll_points if self._caught_up and backlog_points is not None else backlog_points
        try:
            # Judge the state first: the read that follows then contains all that a dead process wrote.
            self.judge()
            ended, before_poll = not self.alive, self._reported()
            read, was_read = self.reader.poll(self, budget), True
        except (OSError, FormatError):
            if not self.elsewhere:
                self.settle()
                return 0
            # A file server that restarts, or a page that is half written: it reappears, or the rank becomes unheard.
            self._reopen()
            read, ended, was_read = 0, False, False
        if self.elsewhere:
            self._listen(read)
            self._look_who_writes()
        if self._reported() != before_poll or self.state == "starting":
            # The process was checked a moment ago, so only a newer entry of the journal can change the state.
            self.judge()
        self._keep_standing(None if ended else self._read_standing())
        at_end = was_read and read < budget
        self._caught_up = self._caught_up or at_end
        if (at_end and ended) or (read < budget and self._silent_s() > LEFT_S):
            self.settle()
        return read

    def _first_age_s(self) -> float:
        """Return how long ago the journal was last written, according to its file."""
        self._stamp = self._stamped()
        return 0.0 if self._stamp is None else max(0.0, time.time() - self._stamp[0] / 1e9)

    def _stamped(self) -> tuple[int, int] | None:
        try:
            found = self.archive.stat() if self.archive is not None else None
        except OSError:
            return self._stamp
        return (found.st_mtime_ns, found.st_size) if found is not None else None

    def _silent_s(self) -> float:
        """Return for how long a journal of another machine has not grown; 0 for one of this machine."""
        return time.monotonic() - self._heard_at if self.elsewhere else 0.0

    def _listen(self, read: int) -> None:
        """Notice that the journal was written: by a change of its file, whatever the other machine's clock says."""
        stamp = self._stamped()
        if stamp != self._stamp or (stamp is None and read):
            self._heard_at, self._stamp = time.monotonic(), stamp
        self.judge()

    def _look_who_writes(self) -> None:
        """Notice that a process of another PID namespace of this machine has ended: nobody has its ring any more."""
        silent = self.archive is None or not self.archive.exists() or self._silent_s() > SILENT_S
        here = self.reader.has_ring and self.identity.boot_id == identity.boot_id() and not self._shared
        if silent and here and self.alive and self._pid_here is None and self.ring is not None and is_left(self.ring):
            self._has_ended = True
            self.judge()

    def _reopen(self) -> None:
        with suppress(OSError, FormatError):
            self.reader.reopen()

    def _read_standing(self) -> Standing | None:
        """Read the rank's last report; it is parsed only if it is new, because a rank reports every 2 s at most."""
        raw = self.reader.first_page(form.STANDING_OFFSET, form.STANDING_BYTES)
        if raw != self._page:
            found = page.parse(raw)
            self._page, self._said = raw, Standing.of(found.said) if found is not None else None
        return self._said

    def _keep_standing(self, said: Standing | None) -> None:
        """Keep the rank's position as a fact while it is stuck; at other times, readers ask for it."""
        lines = self._seen_lines.see(said) if said is not None else None
        if lines is not None and lines != self.facts.get(OWN_LINES):
            self.facts[OWN_LINES], self._rank = lines, None
        if said is None or said.at is None or said.since is None or time.time() - said.since < page.STILL_S:
            said = None
        if said is not None and said.stated != self.facts.get(STANDING):
            self.facts[STANDING], self._rank = dict(said.stated), None
        elif said is None and self.facts.pop(STANDING, None) is not None:
            self._rank = None

    def _reported(self) -> tuple[int, int | None]:
        return self.reader.live.state, self.reader.live.exit_code

    def settle(self) -> None:
        """Stop following; copy what a dead process left in its ring to its archive, and free the ring's memory."""
        self.done = True
        self.judge()
        here = self.identity.boot_id == identity.boot_id() and not self._shared  # of another container, maybe
        if not self.alive and here and self.archive and self.ring and self.reader.has_ring:
            salvage(self.reader, self.archive, self.ring)
        self.reader.close()

    def close(self) -> None:
        """Close the files."""
        self.done = True
        self.reader.close()

    def judge(self) -> None:
        """Determine the state: from the journal, else from whether its process is alive, else from its age."""
        live = self.reader.live
        state: RunState
        if self._pid_here is not None and not is_alive(self._pid_here, self.identity):
            self._pid_here = self._rank = None
            self._has_ended = True
        if live.state == form.FINISHED:
            state = "finished"
        elif live.state == form.FAILED:
            state = "stopped" if live.exit_code == form.SIGINT_EXIT_CODE else "failed"
        else:
            state = "running" if self.elsewhere else _process_state(self.identity) or "running"
            if state == "running" and live.state == form.STARTING and not self.metrics:
                state = "starting"
            if self._silent_s() > UNHEARD_S:
                state = "killed" if self._is_gone else "unheard"
            if self._has_ended or live.archive == form.ARCHIVE_TAKEN_OVER:
                state = "killed"
        if (state, live.exit_code) != (self.state, self.exit_code):
            self.state, self.exit_code, self._rank = state, live.exit_code, None

    def scalars(
        self, names: Sequence[str], steps: Sequence[int], times_ns: Sequence[int], columns: Sequence[Sequence[float]]
    ) -> None:
        """Receive records of one shape (``journal/read.Sink``)."""
        found: list[float] = []

        def walls() -> list[float]:
            if not found:  # the metrics of a record share its time
                found.extend([(time_ns + self._shift) / 1e9 for time_ns in times_ns])
            return found

        if self._begins_training(names, columns):
            # Drop the times of the previous training's steps: this one may not measure all of them.
            self.metrics = {name: value for name, value in self.metrics.items() if not name.startswith(form.PHASE)}
        for name, column in zip(names, columns, strict=True):
            self.metrics[name] = column[-1]
            if self._limit is None:
                continue
            fresh = self._fresh.get(name)
            if fresh is None:
                fresh = self._fresh[name] = Decimator(self._limit)
            fresh.extend(steps, times_ns, column, self._wall, walls)
        self.last_log_at = self._wall(times_ns[-1]) or None
        self._numbering.add(names, max(steps), self.last_log_at)
        self._rank = None

    def _begins_training(self, names: Sequence[str], columns: Sequence[Sequence[float]]) -> bool:
        """Return whether automatic tracking began another training. A script that opened the run may log "training" itself."""
        name = beside(_TRAINING) if self._numbering.is_opened_by_script or _TRAINING not in names else _TRAINING
        newest = columns[names.index(name)][-1] if name in names else 0.0
        return newest > self.metrics.get(name, 1.0) and newest.is_integer()

    def event(self, kind: int, step: int, time_ns: int, value: Any) -> None:
        """Receive a text or an event (``journal/read.Sink``); ignore it if its form is unknown."""
        if not isinstance(value, dict):
            return
        if kind == form.TEXT and isinstance(message := value.get("message"), str):
            self.texts.append(Text(self._wall(time_ns), str(value.get("level"))[:20], message[:TEXT_CHARACTERS]))
        if kind != form.EVENT:
            return
        what, name, content = value.get("type"), value.get("name"), value.get("value")
        if not isinstance(name, str):
            return
        self._rank = None
        if what == "anchor" and isinstance(content, int) and abs(content) < 2**63:
            self._shift = content
        elif what == "card" and isinstance(content, dict):
            self.card = content
        elif what == "config" and len(self.config) < STATEMENTS_MAX:
            self.config[name] = content
        elif what == "fact" and len(self.facts) < STATEMENTS_MAX:
            self.facts[name] = content

    def _wall(self, time_ns: int) -> float:
        return (time_ns + self._shift) / 1e9

    def take_points(self) -> list[Points]:
        """Return the points read since the last call."""
        if not self._fresh:
            return []
        fresh, self._fresh = self._fresh, {}
        run_id, rank = self.identity.run_id, self.identity.rank
        return [Points(run_id, rank, name, *series.columns()) for name, series in fresh.items()]

    def rank(self) -> Rank:
        """Return the rank as a snapshot shows it; the same object as long as nothing changes."""
        if self._rank is None:
            who = self.identity
            self._rank = Rank(
                rank=who.rank,
                pid=self._pid_here or who.pid or None,
                hostname=who.hostname or None,
                local_rank=who.local_rank,
                world_size=who.world_size,
                state=self.state,
                exit_code=self.exit_code,
                step=self._numbering.step,
                optimizer_step=self._numbering.optimizer_step,
                last_log_at=self.last_log_at,
                last_step_at=self._numbering.last_step_at,
                metrics=dict(self.metrics),
                facts=dict(self.facts),
                elsewhere=self.elsewhere and self._pid_here is None,
                restarted_at=who.created_ns / 1e9 if who.attempt else None,
            )
        return self._rank

    def text(self, name: str) -> str | None:
        """Return an entry of the card if it is a string."""
        value = self.card.get(name)
        return value if isinstance(value, str) else None

    @property
    def command(self) -> tuple[str, ...] | None:
        """The command line that the process was started with."""
        value = self.card.get("command")
        return tuple(str(part) for part in value) if isinstance(value, list) else None

    def ended_at(self) -> float | None:
        """Return when the journal was last written, if it has ended."""
        if self.alive:
            return None
        try:
            return self.archive.stat().st_mtime if self.archive else self.last_log_at
        except OSError:
            return self.last_log_at


def _clock_shift(who: form.Identity) -> int:
    """Return wall clock minus monotonic clock, until the journal records it; exact on the same boot."""
    if who.boot_id == identity.boot_id():
        return time.time_ns() - time.monotonic_ns()
    return who.created_ns


def _process_state(who: form.Identity) -> RunState | None:
    """Return "running", "stalled" (stopped by a signal) or "killed" for a process of this machine; None if that is unknown."""
    boot = identity.boot_id()
    if not boot or not who.boot_id:
        return None
    if who.boot_id != boot:
        return "killed"  # this machine has been restarted since
    found = identity.process_state(who.pid)
    if found is None or found[0] != who.start_ticks or found[1] in "ZX":
        return "killed"
    return "stalled" if found[1] == "T" else "running"


def merged(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge configurations; for each name the first rank's value wins."""
    result: dict[str, Any] = {}
    for config in configs:
        for name, value in config.items():
            result.setdefault(name, value)
    return result
