"""The sampler: combines a device source, the host and the journals into snapshots, and writes them as a stream.

``Sampler`` makes one snapshot at a time; ``serve`` writes one line of JSON per interval. ``gputop agent`` runs ``serve`` in a
process of its own and takes commands on standard input, so that a hanging driver call never freezes a screen. When a screen
asks about one process, the answer is a line between the snapshots. ``--once``, ``--stream`` and ``record`` use the same
``Sampler`` and ask nothing: there is no second path.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, TypeAlias, TypeVar

from gputop.agent.nccl_turns import NcclTurns, WhenToAsk
from gputop.errors import PLEASE_REPORT, GputopError, NoGpuError, UsageError, describe_unexpected
from gputop.facts.table import Facts
from gputop.foreign.found import process_runs
from gputop.places import jobs_dir, state_dir
from gputop.snapshot import (
    LIVE_STATES,
    NOT_READ,
    Device,
    DeviceUse,
    Host,
    HostSource,
    LogMatch,
    Problem,
    Process,
    ProcessRun,
    Run,
    SamplerCost,
    Snapshot,
)
from gputop.sources.base import Claim, Reading, Source
from gputop.sources.host.procfs import command_line_of, read_boot_id
from gputop.sources.host.reader import HostReader, namespace_note
from gputop.sources.nccl.ras import RasWatch
from gputop.tracking.reader import leftovers
from gputop.tracking.reader.runs import RunReader, RunUpdate
from gputop.units import INTERVAL_MAX_S, INTERVAL_MIN_S
from gputop.wire import FormatError, parse_json

if TYPE_CHECKING:
    from gputop.agent.answering import Answering
    from gputop.foreign.curves import Curves, ForeignCurves
    from gputop.jobs.output.matches import LogMatches
    from gputop.jobs.output.printed_runs import PrintedRuns
    from gputop.questions import Answer

T = TypeVar("T")
Inbox: TypeAlias = "queue.Queue[dict[str, Any] | Answer | None]"
"""The queue that ``serve`` waits on: commands, answers to write, and None after the last command."""
WARM_UP_S = 0.25
"""Time between the two readings of ``--once`` on virtual GPUs, whose utilization is a difference."""
WHOLE_S = 1.5
"""How long ``--once`` waits for a driver. An H100 is read whole in 0.3 s: it takes two readings, 0.2 s apart."""


class NoSource:
    """The source when there is no GPU and virtual ones are not wanted: no devices, and the reason."""

    name: HostSource = "none"

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def start(self, interval_s: float) -> None:
        """Do nothing: there is nothing to start."""

    def read(self, claims: Sequence[Claim] = ()) -> Reading:
        """Return no devices and the reason."""
        return Reading((), {}, problem=self.problem)

    def wait_until_whole(self, timeout_s: float, rates: bool = True) -> None:
        """Do nothing: there is nothing to wait for."""

    def want_pcie(self, wanted: bool) -> None:
        """Do nothing: there is no link to measure."""

    def close(self) -> None:
        """Do nothing: there is nothing to stop."""


def choose_source(interval_s: float, virtual: int | None = None, *, fall_back: bool = True) -> tuple[Source, Problem | None]:
    """Return a started source, and why it is not NVML.

    ``virtual`` requests that many virtual GPUs (0: a number that suits this machine). Without it, NVML is tried first; if there
    is no GPU, virtual GPUs stand in (with ``fall_back``), else ``NoSource``.
    """
    from gputop.sources.virtual import VirtualSource

    if virtual is None:
        from gputop.sources.nvml.source import NvmlSource

        nvml = NvmlSource()
        try:
            nvml.start(interval_s)
        except NoGpuError as error:
            problem = Problem(error.code, error.message, error.hint)
            if not fall_back:
                return NoSource(problem), problem
        else:
            return nvml, None
    else:
        problem = None
    source = VirtualSource(virtual or None)
    source.start(interval_s)
    return source, problem


class Sampler:
    """Makes snapshots of this machine. Not thread-safe: only one thread may call it.

    If a reader fails, the snapshot lacks its part and says so in the notes; the rest is there.
    """

    raises: ClassVar[bool] = False
    """Whether a failure ends ``take``: for tests, where it must be seen."""

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
        self._runs = runs or RunReader()
        self._host = HostReader()
        self._ras = RasWatch()
        self._nccl_turns = NcclTurns(ask_nccl)
        self._sequence = 0
        self._failed: list[Problem] = []
        self._cpu_at: tuple[float, float] | None = None
        self._printed: PrintedRuns | None = None
        self._logs: LogMatches | None = None
        self.listed_runs: tuple[Run, ...] = ()
        """The runs of the last snapshot."""
        self._foreign_curves: ForeignCurves | None = None

    def take(self) -> Snapshot:
        """Read everything once and return it. Takes milliseconds, whatever the driver does."""
        began = time.monotonic()
        self._failed = []
        if self._sequence == 1:  # once, and the first snapshot does not wait for it
            self._read("What dead trainings left in memory", leftovers.free)
        update = self._read("The runs", lambda: self._runs.poll(self._note_lost_run)) or RunUpdate()
        self._read("The pace of the runs", lambda: self._nccl_turns.observe_runs(update.runs, update.points, time.time()))
        update = self._read("The output of jobs", lambda: self._add_printed_runs(update)) or update
        reading = self._read("The GPUs", lambda: self.source.read(claims_of(update.runs))) or self._unread()
        devices = select_devices(reading.devices, self._gpus)
        uses = _uses_on(reading.uses, devices) if self._gpus else reading.uses
        pids = pids_of(update.runs)
        note_failure = partial(self._note_failure, "A process")
        elsewhere = reading.uses.keys() - uses.keys()
        processes = self._read("The processes", lambda: self._host.read_processes(uses, pids, note_failure, elsewhere)) or ()
        foreign = self._read(
            "The runs without a journal",
            lambda: process_runs(processes, began_of(update.runs), command_line_of, str(state_dir())),
        )
        curves = self._read("The curves of runs that gputop does not track", lambda: self._curves(foreign or (), pids))
        if curves is not None:
            foreign = curves.process_runs
            runs = sorted(update.runs + curves.runs, key=lambda run: run.created_at or 0.0, reverse=True)
            update = RunUpdate(tuple(runs), update.points + curves.points)
        self.listed_runs = update.runs
        host = self._host_record(reading)
        logs = self._read("The errors in the output of jobs", self._log_matches) or ()
        extra = self._read("NCCL's own account", lambda: self._extra_fields(processes)) or {}
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
            notes=(*_notes(reading, processes), *self._failed),
            logs=logs,
            process_runs=foreign or (),
            **extra,
            cost=self._cost(time.monotonic() - began, reading.nvml_calls),
        )
        self._sequence += 1
        return snapshot

    def keep_gpus(self, snapshot: Snapshot) -> None:
        """Keep what the GPUs of live runs do, so that ended runs show it, too; the first snapshot does not wait for it."""
        if snapshot.sequence and any(run.state in LIVE_STATES for run in snapshot.runs):
            from gputop.agent.gpu_pasts import record_gpus

            self._read("The past of the GPUs", lambda: record_gpus(snapshot, self._runs.directory))

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
        """Return a reading without devices, with the reason: they were not read, but they are not gone."""
        return Reading((), {}, problem=self._failed[-1])

    def _extra_fields(self, processes: tuple[Process, ...]) -> dict[str, Any]:
        """Return what sources other than the driver, /proc and the journals report, keyed by the snapshot's field names.

        Every reader added here must return at once; whatever takes time needs its own thread.
        """
        return {"communicators": self._ras.poll(self._nccl_turns.askable(processes, time.time()))}

    def _add_printed_runs(self, update: RunUpdate) -> RunUpdate:
        """Add the runs of jobs that keep no journal, as parsed from their output."""
        if self._printed is None:
            if not jobs_dir().is_dir():
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
        if self._foreign_curves is None:
            if not found:
                return None
            from gputop.foreign.curves import ForeignCurves

            self._foreign_curves = ForeignCurves()
        note_failure = partial(self._note_failure, "The curve of a run that gputop does not track")
        return self._foreign_curves.poll(found, tuple(tracked), note_failure)

    def _log_matches(self) -> tuple[LogMatch, ...]:
        """Return the known error texts in the output of jobs; none in the first snapshot, which a screen is waiting for."""
        if self._logs is None:
            if not self._sequence or not jobs_dir().is_dir():
                return ()
            from gputop.jobs.output.matches import LogMatches

            self._logs = LogMatches()
        return self._logs.poll()

    def _host_record(self, reading: Reading) -> Host:
        host = self._read("The machine", lambda: self._host.read_host(self.source.name))
        if host is None:
            host = Host(os.uname().nodename, read_boot_id(), self.source.name)
        return dataclasses.replace(
            host,
            driver_version=reading.driver_version,
            cuda_version=reading.cuda_version,
            simulated=reading.simulated,
            problem=reading.problem or self._problem,
        )

    def _cost(self, read_s: float, nvml_calls: int | None) -> SamplerCost:
        now, cpu = time.monotonic(), time.process_time()
        before, self._cpu_at = self._cpu_at, (now, cpu)
        share = 100 * (cpu - before[1]) / (now - before[0]) if before and now > before[0] else None
        return SamplerCost(share, read_s, nvml_calls, self._host.own_memory_bytes())

    def set_interval(self, interval_s: float) -> None:
        """Change the interval, also that of the source."""
        self.interval_s = min(INTERVAL_MAX_S, max(INTERVAL_MIN_S, interval_s))
        self.source.start(self.interval_s)


def _notes(reading: Reading, processes: tuple[Process, ...]) -> tuple[Problem, ...]:
    hidden = namespace_note(processes)
    return (*reading.notes, hidden) if hidden else reading.notes


def _uses_on(uses: Mapping[int, tuple[DeviceUse, ...]], devices: Iterable[Device]) -> dict[int, tuple[DeviceUse, ...]]:
    shown = {device.uuid for device in devices}
    kept = {pid: tuple(use for use in of if use.device_uuid in shown) for pid, of in uses.items()}
    return {pid: of for pid, of in kept.items() if of}


def select_devices(devices: tuple[Device, ...], gpus: Sequence[str]) -> tuple[Device, ...]:
    """Return the devices named by index, UUID or the start of a UUID; all if none is named.

    Raises:
        UsageError: a name matches no device.
    """
    if not gpus or not devices:
        return devices
    chosen = set()
    for name in gpus:
        found = {
            device.uuid
            for device in devices
            if (name.isdigit() and device.index == int(name)) or (not name.isdigit() and device.uuid.startswith(name))
        }
        if not found:
            known = ", ".join(str(device.index) for device in devices)
            raise UsageError(f"There is no GPU {name!r} here.", f"This machine has {known}.")
        chosen |= found
    return tuple(device for device in devices if device.uuid in chosen or device.parent_uuid in chosen)


def pids_of(runs: Iterable[Run]) -> dict[int, tuple[str, int]]:
    """Return PID -> (run id, rank) for every live rank."""
    return {
        rank.pid: (run.run_id, rank.rank)
        for run in runs
        for rank in run.ranks
        if rank.pid is not None and rank.state in LIVE_STATES
    }


def began_of(runs: Iterable[Run]) -> dict[int, float]:
    """Return PID -> when the newest run began that it wrote on this machine, ended or not: wall clock in seconds."""
    hostname = os.uname().nodename
    found: dict[int, float] = {}
    for run in runs:
        for rank in run.ranks if run.created_at is not None else ():
            if rank.pid is not None and rank.hostname in (None, hostname):
                found[rank.pid] = max(found.get(rank.pid, 0.0), run.created_at or 0.0)
    return found


def claims_of(runs: Iterable[Run]) -> tuple[Claim, ...]:
    """Return which process or thread reports that it works as which virtual GPU (the journal's fact ``devices``)."""
    claims: list[Claim] = []
    for run in runs:
        for rank in run.ranks:
            if rank.pid is None or rank.state not in LIVE_STATES:
                continue
            claims += [
                Claim(rank.pid, device.virtual_index, device.thread_id, device.memory_bytes)
                for device in Facts(rank.facts).devices
                if device.virtual_index is not None
            ]
    return tuple(claims)


def take_once(sampler: Sampler, *, rates: bool = True) -> Snapshot:
    """Return one snapshot that holds all that can be read. Virtual GPUs need a second one, a moment later, for utilization.

    Without ``rates``, the driver may not yet have told what takes two readings, such as the traffic of the links.
    """
    sampler.source.wait_until_whole(WHOLE_S, rates)
    first = sampler.take()
    if sampler.source.name != "virtual":
        return first
    time.sleep(WARM_UP_S)
    second = sampler.take()
    return dataclasses.replace(second, points=first.points + second.points)


def serve(
    sampler: Sampler,
    write: Callable[[str], None],
    inbox: Inbox | None = None,
    *,
    compact: bool = False,
) -> None:
    """Write a snapshot per interval until ``write`` fails or the commands end (a ``None`` in ``inbox``).

    Commands are objects: ``{"interval_s": 2.0}``, ``{"pcie": true}`` (measure its throughput also where that costs something),
    and the questions of ``gputop/questions.py``, such as ``{"process": {"pid": 4242}}``. Answers are written as soon as they
    arrive. A late tick is skipped, never caught up.
    """
    answering: Answering | None = None
    due = time.monotonic()
    while True:
        snapshot = sampler.take()
        write(snapshot.to_json(compact))
        sampler.keep_gpus(snapshot)
        if inbox is not None and answering is None:  # the first snapshot does not wait for it
            from gputop.agent.answering import Answering

            answering = Answering(inbox.put)
        due = max(due + sampler.interval_s, time.monotonic())
        while (wait := due - time.monotonic()) > 0:
            if inbox is None or answering is None:
                time.sleep(wait)
                continue
            try:
                item = inbox.get(timeout=wait)
            except queue.Empty:
                continue
            if item is None:
                return
            if not isinstance(item, dict):
                write(item.to_json())
            elif apply(sampler, answering, item):
                due = time.monotonic()


def apply(sampler: Sampler, answering: Answering, command: Mapping[str, Any]) -> bool:
    """Execute one command; return True if a snapshot should follow at once. Ignore anything that is not a command."""
    from gputop.questions import question_in

    try:
        question = question_in(command)
    except FormatError:
        return False
    if question is not None:
        answering.ask(question, sampler.listed_runs)
        return False
    if isinstance(command.get("pcie"), bool):
        sampler.source.want_pcie(command["pcie"])
        return False
    if isinstance(command.get("interval_s"), int | float):
        sampler.set_interval(float(command["interval_s"]))
        return True
    return False


def read_commands(stream: BinaryIO, inbox: Inbox) -> None:
    """Put each line of ``stream`` into ``inbox``, then ``None``: the end of the stream means that the parent is gone."""
    for line in stream:
        try:
            command = parse_json(line)
        except FormatError:
            continue
        if isinstance(command, dict):
            inbox.put(command)
    inbox.put(None)


def main(interval_s: float, virtual: int | None, gpus: Sequence[str], ask_nccl: WhenToAsk, *, fall_back: bool = True) -> int:
    """Run the agent on standard input and output until either closes; never wait for a driver call.

    ``fall_back`` is that of ``choose_source``.
    """
    inbox: Inbox = queue.Queue()
    commands = open(0, "rb", closefd=False)  # noqa: SIM115 - read as long as this process lives; sys.stdin may be None
    threading.Thread(target=read_commands, args=(commands, inbox), daemon=True, name="commands").start()
    source, problem = choose_source(interval_s, virtual, fall_back=fall_back)
    sampler = Sampler(source, interval_s, problem=problem, gpus=gpus, ask_nccl=ask_nccl)
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sampler, write_line, inbox, compact=True)
    source.close()
    # A thread stuck in the driver would keep the interpreter from exiting, so exit without it.
    os._exit(0)


def write_line(line: str) -> None:
    """Write one line to standard output at once.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    data = line.encode() + b"\n"
    descriptor = sys.stdout.fileno()
    while data:
        select.select((), (descriptor,), ())
        data = data[os.write(descriptor, data) :]
