"""What tracked runs print, if their output is a file and no job's: texts that stay true while they run, such as a full disk;
evaluations and returns, of which automatic tracking knows nothing; and why a run ended whose journal has no exception.

Jobs have their own reader (``jobs/output``), and a journal says how a run failed. But a script that catches such an error and
goes on says so only in its output, and of a crash in native code only the shell's line there tells. A thread of its own reads
it, so that a network file system that hangs blocks nothing else.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gputop.facts.table import Facts
from gputop.process import ProcessRank, ProcessRun
from gputop.snapshot import FAILED_STATES, LIVE_STATES, LogMatch, Run
from gputop.sources.host import procfs
from gputop.untracked.outputs import files_of

if TYPE_CHECKING:
    from gputop.untracked.errors import OutputErrors
    from gputop.untracked.unfollowed.courses import PrintedCourses

READ_S = 2.0
"""How often the output is read."""
RUNS_MAX = 8
"""The output of at most this many runs is read: the newest ones."""
LAST_WORDS_S = 10.0
"""How long to read on after a run has ended without a word: its shell and its launcher report on it."""
RECENT_S = 600.0
"""How long such an end is explained."""


def prints_itself(run: Run) -> bool:
    """Return whether a run is alive, and nothing of gputop takes its output."""
    return run.state in LIVE_STATES and run.job_id is None


def ended_without_a_word(run: Run) -> bool:
    """Return whether a run that printed itself failed, and its journal has no exception that says why."""
    silent = not any(Facts.error.stands_in(rank.facts) for rank in run.ranks)
    return run.state in FAILED_STATES and run.job_id is None and silent


class LastingTexts:
    """Reads on with a poll, unless the last reading still goes on. ``matches`` is replaced as a whole by the thread."""

    def __init__(self) -> None:
        """Nothing is read before ``poll``."""
        self.matches: tuple[LogMatch, ...] = ()
        self._known: dict[str, OutputErrors] = {}
        self._ended: dict[str, tuple[OutputErrors, float]] = {}
        """What was read of runs that have ended without a word, and when that was noticed."""
        self._courses: dict[str, PrintedCourses] = {}
        self._facts: dict[str, Mapping[int, list[dict[str, Any]]]] = {}
        self._reading: threading.Thread | None = None
        self._due_s = 0.0
        self._failure: Exception | None = None

    def poll(self, runs: Sequence[Run]) -> tuple[LogMatch, ...]:
        """Return the texts of these runs as of the last reading: those that last, and those that explain an end.

        An unexpected error of the reading is raised once.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        own = [run for run in runs if prints_itself(run)][:RUNS_MAX]
        known = self._known.keys() | self._ended.keys()
        own += [run for run in runs if run.run_id in known and ended_without_a_word(run)]
        now = time.monotonic()
        if own and now >= self._due_s and (self._reading is None or not self._reading.is_alive()):
            self._due_s = now + READ_S
            self._reading = threading.Thread(target=self._try_to_read, args=(own,), name="lasting-texts", daemon=True)
            self._reading.start()
        live = {run.run_id for run in own}
        return tuple(match for match in self.matches if match.run_id in live)

    def with_printed(self, runs: Sequence[Run]) -> tuple[Run, ...]:
        """Return the runs with what the last reading found that they print: the fact ``printed`` of a rank."""
        facts = self._facts
        return tuple(_with_facts(run, facts[run.run_id]) if run.run_id in facts else run for run in runs)

    def _try_to_read(self, runs: Sequence[Run]) -> None:
        try:
            self._read(runs)
        except Exception as error:  # noqa: BLE001 - the sampler tells the user
            self._failure = error

    def _read(self, runs: Sequence[Run]) -> None:
        before, self._known = self._known, {}
        courses: dict[str, PrintedCourses] = {}
        self._read_last_words([run.run_id for run in runs if not prints_itself(run)], before)
        for run in filter(prints_itself, runs):
            ranks = tuple(ProcessRank(rank.local_pid, rank.rank) for rank in run.ranks if rank.local_pid is not None)
            files = files_of(ProcessRun(run.run_id, run.name, ranks)) if ranks else {}
            errors = before.get(run.run_id)
            if errors is None:
                if not any(files.values()):
                    continue  # it prints to a terminal or a pipe: the known texts, 2 MiB, are loaded with the first file
                from gputop.untracked.errors import OutputErrors

                errors = OutputErrors(run.run_id)
            errors.follow(files, _began_at([rank.pid for rank in ranks]))
            if errors.reads_something:
                self._known[run.run_id] = errors
                errors.read([rank.pid for rank in ranks], time.monotonic())
                courses[run.run_id] = self._courses.get(run.run_id) or _new_courses()
                courses[run.run_id].read(files)
        claims = Counter(identity for errors in self._known.values() for identity in errors.identities)
        claims.update(identity for errors, _ in self._ended.values() for identity in errors.identities)
        own = [errors for errors in self._known.values() if all(claims[identity] == 1 for identity in errors.identities)]
        self._courses = courses
        self._facts = {errors.run_id: courses[errors.run_id].facts() for errors in own}
        lasting = [match for errors in own for match in errors.matches if match.pattern in errors.lasting]
        ended = [errors for errors, _ in self._ended.values() if all(claims[identity] == 1 for identity in errors.identities)]
        self.matches = (*lasting, *(match for errors in ended for match in errors.matches if match.job_state == "failed"))

    def _read_last_words(self, run_ids: Sequence[str], before: Mapping[str, OutputErrors]) -> None:
        """Read on in the output of runs that have ended without a word."""
        now = time.monotonic()
        known = {run_id: (errors, now) for run_id, errors in before.items()} | self._ended
        self._ended = {run_id: known[run_id] for run_id in run_ids if run_id in known and now - known[run_id][1] < RECENT_S}
        for errors, since in self._ended.values():
            if now - since < LAST_WORDS_S:
                errors.read([], now, ended=True)


def _began_at(pids: Sequence[int]) -> float | None:
    """Return when the first of these processes started, as wall clock; None if unknown.

    A run begins later, often with its first step: what it printed while it loaded is its own.
    """
    ages = []
    for pid in pids:
        with suppress(OSError):
            stat = procfs.read_stat(pid)
            if stat is not None:
                ages.append(time.clock_gettime(time.CLOCK_BOOTTIME) - stat.start_ticks / procfs.TICKS_PER_S)
    return time.time() - max(ages) if ages else None


def _new_courses() -> PrintedCourses:
    """Import the parser of lines only for output that is a file."""
    from gputop.untracked.unfollowed.courses import PrintedCourses

    return PrintedCourses()


def _with_facts(run: Run, printed: Mapping[int, list[dict[str, Any]]]) -> Run:
    ranks = [
        replace(rank, facts={**rank.facts, "printed": printed[rank.rank]}) if printed.get(rank.rank) else rank
        for rank in run.ranks
    ]
    return replace(run, ranks=tuple(ranks))
