"""The sampler: combines a device source, the host and the journals into snapshots, one at a time.

``serving.py`` writes them as a stream. ``--once``, ``--stream``, ``record`` and the dashboard use the same ``Sampler``: there
is no second path.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from gputop.agent.nccl_turns import NcclTurns, WhenToAsk
from gputop.agent.run_processes import began_of, claims_of, pids_of, ranks_with_others_elsewhere
from gputop.agent.source import select_devices, uses_on
from gputop.errors import PLEASE_REPORT, GputopError, __version__, describe_unexpected
from gputop.places import jobs_dir, runs_dir, state_dir
from gputop.snapshot import (
    LIVE_STATES,
    NOT_READ,
    Host,
    LaunchPart,
    LogMatch,
    Problem,
    Process,
    ProcessRun,
    Run,
    SamplerCost,
    Snapshot,
)
from gputop.sources.base import Reading, Source
from gputop.sources.host.pid_namespace import namespace_note
from gputop.sources.host.procfs import command_line_of, read_boot_id
from gputop.sources.host.reader import HostReader
from gputop.tracking.journal import places
from gputop.tracking.reader.update import RunUpdate
from gputop.units import INTERVAL_MAX_S, INTERVAL_MIN_S
from gputop.untracked.found import ProcessRuns

if TYPE_CHECKING:
    from gputop.agent.launch_parts import LaunchParts
    from gputop.jobs.output.matches import LogMatches
    from gputop.jobs.output.printed_runs import PrintedRuns
    from gputop.sources.nccl.ras import RasWatch
    from gputop.sources.network.watch import Network, NetworkWatch
    from gputop.tracking.reader.runs import RunReader
    from gputop.untracked.curves import Curves, UntrackedCurves
    from gputop.untracked.unfollowed.lasting import LastingTexts
    from gputop.untracked.unfollowed.launcher_ends import LauncherEnds
    from gputop.where.early_places import EarlyPlaces
    from gputop.where.untracked_places import UntrackedPlaces

T = TypeVar("T")
WARM_UP_S = 0.25
"""Time between the two readings of ``--once`` on virtual GPUs, whose utilization is a difference."""
WHOLE_S = 1.5
"""How long ``--once`` waits for a driver. A complete reading of an H100 takes 0.3 s: two readings, 0.2 s apart."""

NETWORK_S = 1.0
"""How long ``--once`` waits for the network, read only for runs with ranks on other machines. A reading takes milliseconds."""


class Sampler:
    """Makes snapshots of this machine. Not thread-safe: only one thread may call it.

    If a reader fails, its part of the snapshot is missing, and a note says so.
    """

    raises: ClassVar[bool] = False
    """Whether a failure makes ``take`` raise: for tests, which must notice it."""

    def __init__(
        self,
        source: Source,
        interval_s: float,
        *,
        problem: Problem | None = None,
        gpus: Sequence[str] = (),
        runs: RunReader | None = None,
        ask_nccl: WhenToAsk = "stood still",
    ) -> None:
        self.source = source
        self.interval_s = interval_s
        self._problem = problem
        self._gpus = tuple(gpus)
        self._runs = runs
        self._run_dirs = () if runs else (*places.archive_roots(runs_dir()), *places.live_dirs(runs_dir()))
        self._jobs_dir = jobs_dir()
        self._host = HostReader()
        self._ras: RasWatch | None = None
        self._nccl_turns = NcclTurns(ask_nccl)
        self._sequence = 0
        self._failed: list[Problem] = []
        self._cpu_at: tuple[float, float] | None = None
        self._printed: PrintedRuns | None = None
        self._logs: LogMatches | None = None
        self._launches: LaunchParts | None = None
        self.listed_runs: tuple[Run, ...] = ()
        """The runs of the last snapshot."""
        self.listed_curves: frozenset[str] = frozenset()
        """The ids of those that are only curves of untracked runs."""
        self.explained = True
        """Whether the error texts in the output of untracked runs are read. Set it before the first snapshot."""
        self.has_points = True
        """Whether snapshots hold the points of runs, besides their newest values. Set it before the first one."""
        self.is_asked_once = False
        """Whether there is only one snapshot, which then waits longer for the curves of untracked runs."""
        self._found = ProcessRuns()
        self._untracked_curves: UntrackedCurves | None = None
        self._lasting: LastingTexts | None = None
        self._launcher_ends: LauncherEnds | None = None
        self._places: tuple[EarlyPlaces, UntrackedPlaces] | None = None
        self._network: NetworkWatch | None = None

    def take(self) -> Snapshot:
        """Read everything once and return it. Takes milliseconds, whatever the driver does."""
        began = time.monotonic()
        self._failed = []
        if self._sequence == 1:  # only once, and the first snapshot does not wait for it
            self._read("What dead trainings left in memory", _free_leftovers)
        update = self._read("The runs", self._poll_runs) or RunUpdate()
        self._read("The pace of the runs", lambda: self._nccl_turns.observe_runs(update.runs, update.points, time.time()))
        update = self._read("The output of jobs", lambda: self._add_printed_runs(update)) or update
        reading = self._read("The GPUs", lambda: self.source.read(claims_of(update.runs))) or self._unread()
        devices = select_devices(reading.devices, self._gpus)
        uses = uses_on(reading.uses, devices) if self._gpus else reading.uses
        pids = pids_of(update.runs)
        note_failure = partial(self._note_failure, "A process")
        elsewhere = reading.uses.keys() - uses.keys()
        processes = self._read("The processes", lambda: self._host.read_processes(uses, pids, note_failure, elsewhere)) or ()
        tracked = update.runs
        if self._lasting is not None:
            update = RunUpdate(self._lasting.with_printed(update.runs), update.points)
        ids = {run.run_id for run in tracked}
        foreign = self._read(
            "The runs without a journal",
            lambda: self._found.find(processes, began_of(update.runs), command_line_of, str(state_dir()), ids),
        )
        curves = self._read("The curves of runs that gputop does not track", lambda: self._curves(foreign or (), pids))
        if curves is not None:
            foreign = curves.process_runs
            runs = sorted(update.runs + curves.runs, key=lambda run: run.created_at or 0.0, reverse=True)
            update = RunUpdate(tuple(runs), update.points + curves.points)
        self.listed_runs = update.runs
        self.listed_curves = frozenset(run.run_id for run in curves.runs) if curves is not None else frozenset()
        foreign = self._read("Where untracked ranks are", lambda: self._with_places(foreign or (), processes)) or foreign
        host = self._host_record(reading)
        logs = self._read("The errors in the output of jobs", self._log_matches) or ()
        logs += curves.logs if curves is not None else ()
        logs += self._read("What tracked runs print", lambda: self._lasting_texts(tracked)) or ()
        logs += self._read("What launchers print", lambda: self._launcher_texts(tracked, processes)) or ()
        extra = self._read("NCCL's own account", lambda: self._extra_fields(processes)) or {}
        network = self._read("The network", lambda: self._read_network(update.runs, foreign or ()))
        snapshot = Snapshot(
            sequence=self._sequence,
            time=time.time(),
            monotonic_s=time.monotonic(),
            interval_s=self.interval_s,
            host=host,
            devices=devices,
            processes=processes,
            runs=update.runs,
            points=update.points,
            notes=(*_notes(reading, processes), *self._failed, *self._unreadable()),
            logs=logs,
            process_runs=foreign or (),
            ended_runs=curves.ended_runs if curves is not None else (),
            interfaces=network.interfaces if network is not None else (),
            paths=network.paths if network is not None else (),
            launches=self._read("The jobs of launches", self._launch_parts) or (),
            waiting_launchers=self._host.waiting_launchers,
            **extra,
            cost=self._cost(time.monotonic() - began, reading.nvml_calls),
        )
        self._sequence += 1
        return snapshot

    def keep_gpus(self, snapshot: Snapshot) -> None:
        """Record what the GPUs of live runs do, for when these have ended; the first snapshot does not wait for it."""
        if snapshot.sequence and any(run.state in LIVE_STATES for run in snapshot.runs):
            from gputop.agent.gpu_pasts import record_gpus

            runs = self._runs
            self._read("The past of the GPUs", lambda: record_gpus(snapshot, runs.directory if runs else lambda run_id: None))

    def _read(self, what: str, read: Callable[[], T]) -> T | None:
        """Return the result of ``read``; on an unexpected failure, add a note and return None."""
        try:
            return read()
        except GputopError:
            raise  # meant for the user
        except Exception as error:  # noqa: BLE001 - a bug in one reader must not take away what the others read
            self._note_failure(what, error)
            return None

    def _note_failure(self, what: str, error: Exception) -> None:
        if self.raises:
            raise error
        problem = Problem(NOT_READ, f"{what} could not be read: {describe_unexpected(error)}.", f"It needs {PLEASE_REPORT}.")
        if problem not in self._failed:
            self._failed.append(problem)

    def _note_lost_run(self, run_id: str, error: Exception) -> None:
        self._note_failure(f"Run {run_id}", error)

    def _unread(self) -> Reading:
        """Return a reading without devices, and the reason: the devices still exist but were not read."""
        return Reading((), {}, problem=self._failed[-1])

    def _extra_fields(self, processes: tuple[Process, ...]) -> dict[str, Any]:
        """Return what sources other than the driver, /proc and the journals report, keyed by the snapshot's field names.

        Every reader added here must return at once; anything that takes time needs its own thread.
        """
        askable = self._nccl_turns.askable(processes, time.time())
        if self._ras is None:
            if not askable:
                return {}
            from gputop.sources.nccl.ras import RasWatch

            self._ras = RasWatch()
        return {"communicators": self._ras.poll(askable)}

    def _poll_runs(self) -> RunUpdate:
        """Return the runs that gputop tracks. A machine on which nothing was tracked needs no reader, nor its imports."""
        if self._runs is None:
            if not any(map(places.entries, self._run_dirs)):
                return RunUpdate()
            from gputop.tracking.reader.runs import RunReader

            self._runs = RunReader() if self.has_points else RunReader(backlog_points=None)
        return self._runs.poll(self._note_lost_run)

    def _unreadable(self) -> tuple[Problem, ...]:
        """Return a note on the runs that cannot be read; a run that is just being created may be whole at the next poll."""
        if self._runs is None:
            return ()
        runs, labels = self._runs.unreadable(), self._runs.unreadable_labels()
        if not runs and not labels:
            return ()
        from gputop.tracking.reader.unreadable import notes_of

        return notes_of(runs, labels)

    def _add_printed_runs(self, update: RunUpdate) -> RunUpdate:
        """Add the runs of jobs that keep no journal, as parsed from their output."""
        if self._printed is None:
            if not self._jobs_dir.is_dir():
                return update
            from gputop.jobs.output.printed_runs import PrintedRuns

            self._printed = PrintedRuns()
        printed = self._printed.poll({run.run_id for run in update.runs})
        if not printed.runs:
            return update
        runs = sorted(update.runs + printed.runs, key=lambda run: run.created_at or 0.0, reverse=True)
        return RunUpdate(tuple(runs), update.points + printed.points)

    def _curves(self, found: tuple[ProcessRun, ...], tracked: Mapping[int, object]) -> Curves | None:
        """Return the curves of runs that gputop does not track; None if there has been no such run."""
        if self._untracked_curves is None:
            if not found:
                return None
            from gputop.untracked.curves import FIRST_WAIT_S, ONLY_WAIT_S, UntrackedCurves

            wait_s = ONLY_WAIT_S if self.is_asked_once else FIRST_WAIT_S
            self._untracked_curves = UntrackedCurves(explained=self.explained, first_wait_s=wait_s)
        note_failure = partial(self._note_failure, "The curve of a run that gputop does not track")
        return self._untracked_curves.poll(found, tuple(tracked), note_failure)

    def _with_places(self, found: tuple[ProcessRun, ...], processes: tuple[Process, ...]) -> tuple[ProcessRun, ...]:
        """Return the runs with where their ranks are; in the first snapshot, that is not known yet."""
        if self._places is None:
            if not self._sequence or not any(len(run.ranks) > 1 for run in found):
                return found
            from gputop.where.early_places import EarlyPlaces
            from gputop.where.untracked_places import UntrackedPlaces

            self._places = EarlyPlaces(), UntrackedPlaces()
        early, untracked = self._places
        return untracked.add(early.add(found), processes)

    def _log_matches(self) -> tuple[LogMatch, ...]:
        """Return the known error texts in the output of jobs; none in the first snapshot, for which a screen is waiting."""
        if self._logs is None:
            if not self._sequence or not self._jobs_dir.is_dir():
                return ()
            from gputop.jobs.output.matches import LogMatches

            self._logs = LogMatches()
        return self._logs.poll()

    def _lasting_texts(self, runs: tuple[Run, ...]) -> tuple[LogMatch, ...]:
        """Return what live tracked runs print that stays true; none in the first snapshot."""
        if self._lasting is None:
            if not self._sequence or not self.explained or self._runs is None or not runs:
                return ()
            from gputop.untracked.unfollowed.lasting import LastingTexts

            self._lasting = LastingTexts()
        return self._lasting.poll(runs)

    def _launcher_texts(self, runs: tuple[Run, ...], processes: tuple[Process, ...]) -> tuple[LogMatch, ...]:
        """Return why launchers, and scripts without one, ended before a rank of theirs was seen."""
        pids = self._host.own_launchers | self._host.young
        if self._launcher_ends is None:
            if not pids or not self.explained:
                return ()
            from gputop.untracked.unfollowed.launcher_ends import LauncherEnds

            self._launcher_ends = LauncherEnds()
        with_ranks = {process.launcher.pid for process in processes if process.launcher is not None}
        with_ranks |= {process.pid for process in processes}
        return self._launcher_ends.poll(pids, with_ranks, {rank.pid for run in runs for rank in run.ranks if rank.pid})

    def _launch_parts(self) -> tuple[LaunchPart, ...]:
        """Return this machine's jobs in launches over several hosts."""
        if self._launches is None:
            if not self._jobs_dir.is_dir():
                return ()
            from gputop.agent.launch_parts import LaunchParts

            self._launches = LaunchParts()
        return self._launches.poll()

    def _read_network(self, runs: tuple[Run, ...], untracked: tuple[ProcessRun, ...]) -> Network | None:
        """Return the readings of the network; None if no run has had ranks elsewhere."""
        pids = ranks_with_others_elsewhere(runs, untracked)
        if self._network is None:
            if not pids:
                return None
            from gputop.sources.network.watch import NetworkWatch

            self._network = NetworkWatch()
        return self._network.poll(pids)

    def with_network(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the first readings of the network, for one that no other follows."""
        if self._network is None:
            return snapshot
        found = self._network.wait(NETWORK_S)
        return dataclasses.replace(snapshot, interfaces=found.interfaces, paths=found.paths)

    def _host_record(self, reading: Reading) -> Host:
        host = self._read("The machine", lambda: self._host.read_host(self.source.name))
        if host is None:
            host = Host(os.uname().nodename, read_boot_id(), self.source.name)
        return dataclasses.replace(
            host,
            driver_version=reading.driver_version,
            cuda_version=reading.cuda_version,
            gputop_version=__version__,
            simulated=reading.simulated,
            problem=reading.problem or self._problem,
        )

    def _cost(self, read_s: float, nvml_calls: int | None) -> SamplerCost:
        now, cpu = time.monotonic(), time.process_time()
        before, self._cpu_at = self._cpu_at, (now, cpu)
        share = 100 * (cpu - before[1]) / (now - before[0]) if before and now > before[0] else None
        return SamplerCost(share, read_s, nvml_calls, self._host.own_memory_bytes())

    def set_interval(self, interval_s: float) -> None:
        """Change the interval, including that of the source."""
        self.interval_s = min(INTERVAL_MAX_S, max(INTERVAL_MIN_S, interval_s))
        self.source.start(self.interval_s)


def _free_leftovers() -> None:
    from gputop.tracking.reader import leftovers

    leftovers.free()


def _notes(reading: Reading, processes: tuple[Process, ...]) -> tuple[Problem, ...]:
    hidden = namespace_note(processes)
    return (*reading.notes, hidden) if hidden else reading.notes


def take_once(sampler: Sampler, *, rates: bool = True) -> Snapshot:
    """Return one snapshot with everything that can be read. Virtual GPUs need a second one, a moment later, for utilization.

    Without ``rates``, values that need two readings, such as link traffic, may be missing.
    """
    sampler.is_asked_once = True
    sampler.source.wait_until_whole(WHOLE_S, rates)
    first = sampler.take()
    if sampler.source.name != "virtual":
        return sampler.with_network(first)
    time.sleep(WARM_UP_S)
    second = sampler.take()
    return sampler.with_network(dataclasses.replace(second, points=first.points + second.points))
