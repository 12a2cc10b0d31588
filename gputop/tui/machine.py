"""One machine that the screen watches: its feed, and everything derived from the feed; machines share nothing.

It must not import Textual: the app and the tests drive it.
"""

from __future__ import annotations

import time

from gputop.agent.feed import Feed, ReplayFeed, landmark
from gputop.history.history import History
from gputop.settings.values import Settings
from gputop.snapshot import Snapshot
from gputop.tui.lazy_doctor import LateDoctor
from gputop.tui.state.grouping import listed
from gputop.tui.state.keyframes import Keyframes
from gputop.tui.state.own_cost import Cost
from gputop.tui.state.view import View, is_outlived, live_runs, newest_run

STALE_AFTER_INTERVALS = 3
"""A snapshot that is older than this many intervals is stale."""


class Machine:
    """Drains a feed, keeps history and diagnosis, and makes the view of its newest snapshot."""

    def __init__(self, feed: Feed, shared_by: int = 1) -> None:
        """``shared_by``: how many machines the screen watches, each with its share of memory."""
        self.feed = feed
        self._shared_by = shared_by
        self._first: tuple[int, float] | None = None
        """Sequence and time of the first snapshot of a replay."""
        self._keyframes = Keyframes()
        self.history = History(shared_by)
        self.doctor = LateDoctor(self.history.memory)
        self.latest: Snapshot | None = None
        self.chosen_run: str | None = None
        """The run that the user chose; None follows the newest."""
        self._runs_on_gpus: frozenset[str] = frozenset()
        """The live runs that were ever seen on a GPU: a run that loses its GPU stays the shown one."""
        self._made_at = time.monotonic()

    def take_in(self) -> list[Snapshot]:
        """Process every waiting snapshot; return them, oldest first."""
        snapshots = self.feed.drain()
        for snapshot in snapshots:
            if self.feed.kind == "replay":
                self._note_beginning(snapshot)
                self._note_place(snapshot)
            self.history.observe(snapshot)
            self.doctor.observe(snapshot)
        if snapshots:
            self.latest = snapshots[-1]
            self._see_gpus(self.latest)
            self._made_at = time.monotonic() - self.feed.age_s(self.latest)
        return snapshots

    def _note_beginning(self, snapshot: Snapshot) -> None:
        """Forget everything if a replay begins again to reach an earlier position: later data is not known there."""
        key = snapshot.sequence, snapshot.time
        if key == self._first:
            self.history = History(self._shared_by)
            self.doctor.begin_anew(self.history.memory)
            self._runs_on_gpus = frozenset()
        self._first = self._first or key

    def _note_place(self, snapshot: Snapshot) -> None:
        """At a landmark of a replay, keep what is known, or restore what was known when it came before."""
        feed, doctor = self.feed, self.doctor.doctor
        if not isinstance(feed, ReplayFeed) or doctor is None or not feed.is_landmark(snapshot):
            return
        key = landmark(snapshot)
        if key in self._keyframes:
            self.history, doctor, findings, self._runs_on_gpus = self._keyframes.restore(key)
            self.doctor.restore(self.history.memory, doctor, findings)
        else:
            self._keyframes.keep(key, (self.history, doctor, self.doctor.findings, self._runs_on_gpus))
            feed.begin_from(self._keyframes)

    def stale_s(self) -> float | None:
        """Return the age of the newest snapshot in seconds, if it is older than a stream of its interval should be."""
        if self.latest is None or self.feed.kind != "live":
            return None
        age = time.monotonic() - self._made_at
        return age if age > STALE_AFTER_INTERVALS * max(self.latest.interval_s, 0.5) else None

    def view(self, settings: Settings, *, paused: bool = False, own_cost: Cost | None = None) -> View | None:
        """Return what the screens show of the newest snapshot, and what showing it costs; None before the first."""
        if self.latest is None:
            return None
        return View(
            snapshot=self.latest,
            history=self.history,
            findings=listed(self.doctor.findings, self.latest),
            settings=settings,
            run_id=self._shown_run(self.latest),
            paused=paused,
            stale_s=self.stale_s(),
            feed=self.feed.kind,
            feed_problem=self.feed.problem(),
            replay_status=self.feed.status(),
            remote=self.feed.host,
            abstained=self.doctor.abstained,
            undecided=self.doctor.undecided,
            diagnosis=self.doctor.doctor,
            loading=self.doctor.doctor is None,
            own_cost=own_cost,
        )

    def _see_gpus(self, latest: Snapshot) -> None:
        users = {process.pid for process in latest.processes if process.devices}
        self._runs_on_gpus = frozenset(
            run.run_id
            for run in live_runs(latest.runs)
            if run.run_id in self._runs_on_gpus or any(rank.local_pid in users for rank in run.ranks)
        )

    def _shown_run(self, latest: Snapshot) -> str | None:
        """Return the user's choice while it exists, else the newest live run, of those that use a GPU if there are any,
        else the newest run. None if no tracked run is alive, and an untracked one is newer than every run with a curve.
        """
        if any(run.run_id == self.chosen_run for run in latest.runs):
            return self.chosen_run
        newest = newest_run(latest.runs, self._runs_on_gpus)
        if newest is None or is_outlived(newest, (*latest.process_runs, *latest.ended_runs)):
            return None
        return newest.run_id
