"""Lists the jobs of hosts and stops them, by the gputop on each host. Jobs with one launch id belong together."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gputop.errors import EXIT_OK, EXIT_USAGE, UsageError
from gputop.hosts import checked
from gputop.hosts.errand import End, Errands, Limits
from gputop.hosts.state import Failure
from gputop.hosts.transport import Transport
from gputop.terminal_text import printable, strip_controls
from gputop.wire import FormatError, decode

JOBS_MOST = 10_000
"""Maximum number of jobs listed per host; the rest is ignored."""
TAKE_S = 0.2
STOP_S = 180.0
"""How long a host may take to stop a job: its supervisor takes half a minute at most, Slurm two and a half minutes."""
ANSWER = Limits(within_s=60.0, lines_most=200_000, bytes_most=16 << 20)
"""Limits of a command that prints something and ends. A listing takes seconds; a log is the last 64 KiB of each file."""
LISTED_BY = "gputop jobs -H lists them."
CLOCK_NOISE_S = 5.0
"""Clocks that differ by less count as equal, because a listing may take this long to arrive."""


@dataclass(frozen=True, slots=True)
class HostJob:
    """A job as its host reports it. Times are by this machine's clock, in seconds since the epoch."""

    id: str
    name: str
    state: str
    launch_id: str | None = None
    recipe_id: str | None = None
    device_uuids: tuple[str, ...] = ()
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    hostname: str | None = None
    problem: str | None = None
    listed_at: float | None = None
    """When its host listed it; None from an older gputop, whose clock then counts as right."""


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """The jobs of one launch, each listed once."""

    id: str
    jobs: tuple[HostJob, ...]
    hosts: tuple[str, ...]
    """Every host that lists one of them, by the name that the user gave."""
    states: tuple[tuple[str, str], ...]
    """The host and state of each job; the host by its own hostname where several list the job."""

    @property
    def states_text(self) -> str:
        """The state on each host: "gpu1 running, gpu2 failed"."""
        return ", ".join(f"{host} {state}" for host, state in self.states)


def jobs_of(hosts: Sequence[str], transport: Transport) -> tuple[dict[str, list[HostJob]], dict[str, End]]:
    """Return the jobs of each host that answered, and how the command ended on every host."""
    found: dict[str, list[HostJob]] = {}

    def take(host: str, line: bytes) -> None:
        jobs = _jobs_in(line, time.time()) if is_record(line) else None
        if jobs is not None:
            found[host] = jobs

    ends = run_over(hosts, transport, ["jobs", "--json"], take, one_record())
    return {host: found[host] for host in hosts if host in found}, explained(ends, found)


def stop_over(
    hosts: Sequence[str],
    transport: Transport,
    job_id: str,
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, End]:
    """Stop a job, or all jobs of a launch, on all hosts at once; return the hosts where one of its processes may be left.

    A host that has not finished after ``STOP_S`` seconds is cut off and counts as one of these. A host with nothing to stop is
    not one: hosts that share a home directory all list the job, and only one can stop it. ``say`` takes what each host prints.

    Raises:
        UsageError: no host has such a job.
    """

    limits = replace(ANSWER, within_s=STOP_S)

    def take(host: str, line: bytes) -> None:
        say(f"{host}: {text_of(line)}")

    wrong = failed(run_over(hosts, transport, ["stop", job_id], take, limits))
    left = {host: end for host, end in wrong.items() if end.failure is not None or end.code != EXIT_USAGE}
    for host, end in wrong.items():
        if host not in left:
            say(printable(end.sentence(host)))
    return left


def may_still_run(hosts: Iterable[str], transport: Transport, job_id: str) -> str:
    """Return a sentence that names the hosts where a job may still run, and the command that stops it there."""
    names = list(hosts)
    return f"It may still run on {', '.join(names)}: {stop_command(names, transport, job_id)}"


def stop_command(hosts: Sequence[str], transport: Transport, job_id: str) -> str:
    """Return the command that stops a job on these hosts, which are reached in this way."""
    return f"gputop stop {transport.options(hosts)} {job_id}"


def run_over(
    hosts: Sequence[str],
    transport: Transport,
    words: Sequence[str],
    take: Callable[[str, bytes], object],
    limits: Limits | None = None,
) -> dict[str, End]:
    """Run a gputop command on each host; return how it ended on each, in the order of the hosts.

    A host that exceeds ``limits`` (``ANSWER`` unless given) is cut off, and its end says so.
    """
    errands = Errands(transport, hosts, words, limits=ANSWER if limits is None else limits)
    with contextlib.closing(errands):
        errands.start()
        while errands.running:
            said = errands.take(TAKE_S)
            if said is not None and said.end is None:
                take(said.host, said.line)
        return {host: errands.ends[host] for host in hosts}


def one_record() -> Limits:
    """Return the limits of a command that answers with one line of JSON."""
    return replace(ANSWER, enough=is_record)


def is_record(line: bytes) -> bool:
    """Return whether a line looks like JSON: a login or a wrapper there may print something first."""
    return line.lstrip()[:1] in (b"[", b"{")


def failed(ends: Mapping[str, End], hint: str = LISTED_BY) -> dict[str, End]:
    """Return the hosts where a command failed, and how.

    Raises:
        UsageError: no host knows the given name; ``hint`` is the command that lists all names.
    """
    if all(end.failure is None and end.code == EXIT_USAGE for end in ends.values()):
        raise UsageError(" ".join(end.sentence(host) for host, end in ends.items()), hint)
    return {host: end for host, end in ends.items() if end.failure is not None or end.code != EXIT_OK}


def explained(ends: Mapping[str, End], found: Collection[str]) -> dict[str, End]:
    """Return the ends of a command that prints one record, with a failure for hosts that printed anything else.

    ``found`` are the hosts that did.
    """
    other = Failure("unreadable", "What it sends is not what was asked for.", "Is it the same gputop there?")
    is_well = {host: end.failure is None and end.code == EXIT_OK for host, end in ends.items()}
    return {host: replace(end, failure=other) if is_well[host] and host not in found else end for host, end in ends.items()}


def clock_offset_s(told_at: float | None, arrived_at: float) -> float:
    """Return how many seconds a host's clock is ahead of this machine's; 0 if that is unknown, or within ``CLOCK_NOISE_S``.

    ``told_at`` is when it sent something, by its clock, and ``arrived_at`` when that arrived, by this machine's.
    """
    offset_s = 0.0 if told_at is None else told_at - arrived_at
    return offset_s if math.isfinite(offset_s) and abs(offset_s) > CLOCK_NOISE_S else 0.0


def _jobs_in(line: bytes, arrived_at: float) -> list[HostJob] | None:
    """Return the jobs in a line, without those that cannot be read; None if it is no list of jobs."""
    with contextlib.suppress(FormatError):
        data = checked.data_in(line)
        if isinstance(data, list):
            jobs = [job for item in data[:JOBS_MOST] if (job := _job_in(item, arrived_at)) is not None]
            return jobs if jobs or not data else None
    return None


def _job_in(item: object, arrived_at: float) -> HostJob | None:
    with contextlib.suppress(FormatError):
        job = decode(HostJob, item)
        offset_s = clock_offset_s(job.listed_at, arrived_at)
        began, ended = (None if at is None else at - offset_s for at in (job.started_at, job.ended_at))
        return replace(job, started_at=began, ended_at=ended, listed_at=arrived_at)
    return None


def launches(found: Mapping[str, Sequence[HostJob]]) -> list[HostLaunch]:
    """Return the jobs grouped by launch, newest first; a job without a launch id is a launch of its own.

    Hosts that share a home directory all list the same jobs. Each job counts once and keeps all of these hosts: only the one
    that it runs on can stop it, and no host knows the name that the user gave it.
    """
    together: dict[str, dict[tuple[str, str | None], tuple[HostJob, list[str]]]] = {}
    for host, jobs in found.items():
        for job in jobs:
            listed = together.setdefault(job.launch_id or job.id, {})
            listed.setdefault((job.id, job.hostname), (job, []))[1].append(host)
    known = [_launch(launch_id, list(listed.values())) for launch_id, listed in together.items()]
    return sorted(known, key=lambda launch: max(job.started_at or 0.0 for job in launch.jobs), reverse=True)


def _launch(launch_id: str, listed: Sequence[tuple[HostJob, Sequence[str]]]) -> HostLaunch:
    hosts = dict.fromkeys(host for _, names in listed for host in names)
    return HostLaunch(
        launch_id,
        tuple(job for job, _ in listed),
        tuple(hosts),
        tuple((names[0] if len(names) == 1 else job.hostname or names[0], job.state) for job, names in listed),
    )


def text_of(line: bytes) -> str:
    """Return a line that a host sent as plain text, without control characters."""
    return printable(strip_controls(line.decode(errors="replace")))
