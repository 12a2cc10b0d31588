"""What the screens draw from: one frozen view per snapshot, built by the app and handed to the visible screen.

Widgets take a ``View`` in ``show(view)`` and keep nothing else from the stream. Imports neither Textual nor any source.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gputop.history.history import History
from gputop.settings.values import Settings

if TYPE_CHECKING:
    # For annotations only: importing the rules takes longer than importing every screen that needs a view.
    from gputop.agent.feed import FeedKind
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.findings.finding import Abstained, Finding, Undecided
    from gputop.snapshot import ProcessRun, Run, Snapshot
    from gputop.tui.state.own_cost import Cost

__all__ = ["Settings", "View", "has_tabs", "is_outlived", "live_runs", "newest_run"]

TABS_BELOW = (100, 30)
"""Below this many columns or rows, the first tab shows the most important panes, and each other tab one pane."""


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a screen can show at this moment.

    ``stale_s`` is the age of the snapshot in seconds once it exceeds three intervals, else None. ``findings`` are ordered,
    verdict first. ``run`` is the chosen run. ``feed`` names the origin of the stream: "live", "replay" (``replay_status`` then
    gives position, speed and pause), or "ended".
    """

    snapshot: Snapshot
    history: History
    findings: tuple[Finding, ...] = ()
    settings: Settings = field(default_factory=Settings)
    run_id: str | None = None
    paused: bool = False
    stale_s: float | None = None
    feed: FeedKind | Literal["ended"] = "live"
    feed_problem: str | None = None
    replay_status: str | None = None
    remote: str | None = None
    """The other machine that the stream comes from, as the user named it: its PIDs and files have no meaning here."""

    abstained: tuple[Abstained, ...] = ()
    """Rules that could not judge, and what each one needs (``doctor/diagnosis.py``)."""

    undecided: tuple[Undecided, ...] = ()
    """Suspicions that are not decided yet."""

    diagnosis: Doctor | None = None
    """The doctor, for what it knows in addition to its findings: what explains what, each rule's verdict, and past episodes."""

    loading: bool = False
    """True until the first snapshot has been judged."""

    own_cost: Cost | None = None
    """What gputop itself costs; None while that is unknown."""

    @property
    def run(self) -> Run | None:
        """The chosen run, or None when there is none."""
        return next((run for run in self.snapshot.runs if run.run_id == self.run_id), None)

    @property
    def involved_devices(self) -> frozenset[str]:
        """UUIDs of the devices that the first finding is about; none if it is about all of several: marks tell nothing then."""
        found = frozenset(self.findings[0].devices) if self.findings else frozenset()
        devices = self.snapshot.devices
        return frozenset() if len(devices) > 1 and found.issuperset(device.uuid for device in devices) else found

    @property
    def involved_pids(self) -> frozenset[int]:
        """PIDs of the processes that the first finding is about."""
        return frozenset(self.findings[0].pids) if self.findings else frozenset()

    @property
    def involves_run(self) -> bool:
        """Whether the first finding is about the chosen run, or about processes of its ranks."""
        run = self.run
        if run is None or not self.findings:
            return False
        return self.findings[0].run == run.run_id or bool(self.involved_ranks)

    @property
    def without_runs(self) -> str | None:
        """Why processes and runs of this machine are entirely unknown; None if they are known."""
        return next((note.message for note in self.snapshot.notes if note.code == "gpus_only"), None)

    @property
    def involved_ranks(self) -> frozenset[int]:
        """Ranks of the chosen run that the first finding is about; empty if it singles out none of them."""
        run, pids = self.run, self.involved_pids
        return frozenset(rank.rank for rank in run.ranks if rank.local_pid in pids) if run is not None else frozenset()


def newest_run(runs: Sequence[Run], on_gpus: Collection[str] = ()) -> Run | None:
    """Return the newest live run, of those with these ids if there are any; else the newest run."""
    alive = live_runs(runs)
    favored = [run for run in alive if run.run_id in on_gpus]
    return max(favored or alive or runs, key=lambda run: run.created_at or 0.0, default=None)


def live_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that have not ended: a run that lost a rank continues while another rank is alive."""
    return [run for run in runs if _is_alive(run)]


def _is_alive(run: Run) -> bool:
    from gputop.snapshot import LIVE_STATES

    return run.state in LIVE_STATES or any(rank.state in LIVE_STATES for rank in run.ranks)


def is_outlived(run: Run, others: Sequence[ProcessRun]) -> bool:
    """Return whether a run has ended, and one of the untracked ``others`` began later."""
    return not _is_alive(run) and any((other.started_at or 0.0) > (run.created_at or 0.0) for other in others)


def has_tabs(columns: int, rows: int) -> bool:
    """Return whether the dashboard has tabs on a terminal of this size."""
    return columns < TABS_BELOW[0] or rows < TABS_BELOW[1]
