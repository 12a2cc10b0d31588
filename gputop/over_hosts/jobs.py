"""What hosts tell of their jobs, and what they are asked to do with one. Those of one launch belong together, by its id."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gputop.errors import EXIT_OK, EXIT_USAGE, UsageError
from gputop.hosts import checked
from gputop.hosts.errand import End, Errands, Limits
from gputop.hosts.transport import Transport
from gputop.terminal_text import printable, strip_controls
from gputop.wire import FormatError, decode

JOBS_MOST = 10_000
"""Jobs of one host that are listed."""
TAKE_S = 0.2
ANSWER = Limits(within_s=60.0, lines_most=200_000, bytes_most=16 << 20)
"""Of a command that tells something and ends. A listing takes seconds; of each file of a log, the last 64 KiB are told."""
LISTED_BY = "gputop jobs -H lists them."


@dataclass(frozen=True, slots=True)
class JobThere:
    """A job as a host tells of it. Times are the host's clock."""

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


@dataclass(frozen=True, slots=True)
class LaunchThere:
    """The jobs of one launch, each once."""

    id: str
    jobs: tuple[JobThere, ...]
    hosts: tuple[str, ...]
    """Every host that lists one of them, as the user names it."""
    states: tuple[tuple[str, str], ...]
    """The host of each job, and its state; the machine's own name where several hosts list the job."""

    @property
    def told(self) -> str:
        """Return what became of each: "gpu1 running, gpu2 failed"."""
        return ", ".join(f"{host} {state}" for host, state in self.states)


def jobs_of(hosts: Sequence[str], transport: Transport) -> tuple[dict[str, list[JobThere]], dict[str, End]]:
    """Return the jobs of each host that could be read, and how reading ended on each."""
    found: dict[str, list[JobThere]] = {}

    def take(host: str, line: bytes) -> None:
        if is_record(line):
            found[host] = _jobs_in(line)

    ends = run_over(hosts, transport, ["jobs", "--json"], take, one_record())
    return {host: found[host] for host in hosts if host in found}, ends


def stop_over(
    hosts: Sequence[str],
    transport: Transport,
    job_id: str,
    say: Callable[[str], object] = lambda line: None,
    within_s: float | None = None,
) -> dict[str, End]:
    """Stop a job, or all jobs of a launch, on the hosts at once; return the hosts where a process of it may be left.

    A training may take its time to end: only ``within_s`` limits it. A host that has nothing to stop is told of, and is none of
    these: where a home directory is shared, only one of several hosts that list a job can stop it.

    Raises:
        UsageError: no host has such a job.
    """

    def take(host: str, line: bytes) -> None:
        say(f"{host}: {text_of(line)}")

    wrong = failed(run_over(hosts, transport, ["stop", job_id], take, replace(ANSWER, within_s=within_s)))
    left = {host: end for host, end in wrong.items() if end.failure is not None or end.code != EXIT_USAGE}
    for host, end in wrong.items():
        if host not in left:
            say(printable(end.sentence(host)))
    return left


def may_still_run(hosts: Iterable[str], job_id: str) -> str:
    """Return where a job was not stopped for sure, and the command that stops it there."""
    names = list(hosts)
    return f"It may still run on {', '.join(names)}: gputop stop -H {','.join(names)} {job_id}"


def run_over(
    hosts: Sequence[str],
    transport: Transport,
    words: Sequence[str],
    take: Callable[[str, bytes], object],
    limits: Limits | None = None,
) -> dict[str, End]:
    """Run a command of gputop on each host; return how it ended there, in the order of the hosts.

    A host that exceeds ``limits``, ``ANSWER`` unless others are given, is cut off: its end says so.
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
    """Return the limits of a command whose answer is one line of JSON."""
    return replace(ANSWER, enough=is_record)


def is_record(line: bytes) -> bool:
    """Return whether a line begins as JSON does: what runs gputop there may say something before."""
    return line.lstrip()[:1] in (b"[", b"{")


def failed(ends: Mapping[str, End], hint: str = LISTED_BY) -> dict[str, End]:
    """Return the hosts where a command went wrong, and how.

    Raises:
        UsageError: no host has what was named; ``hint`` says what lists them.
    """
    if all(end.failure is None and end.code == EXIT_USAGE for end in ends.values()):
        raise UsageError(" ".join(end.sentence(host) for host, end in ends.items()), hint)
    return {host: end for host, end in ends.items() if end.failure is not None or end.code != EXIT_OK}


def _jobs_in(line: bytes) -> list[JobThere]:
    try:
        data = checked.data_in(line)
        return [decode(JobThere, item) for item in data[:JOBS_MOST]]
    except (FormatError, TypeError, LookupError):
        return []


def launches(found: Mapping[str, Sequence[JobThere]]) -> list[LaunchThere]:
    """Return the jobs of each launch, the newest launch first; a job of its own is a launch, too.

    Hosts that share a home directory all list all of its jobs: each is counted once, and all of these hosts are named, as only
    the one that a job runs on can stop it, and none tells under which name the user knows it.
    """
    together: dict[str, dict[tuple[str, str | None], tuple[JobThere, list[str]]]] = {}
    for host, jobs in found.items():
        for job in jobs:
            listed = together.setdefault(job.launch_id or job.id, {})
            listed.setdefault((job.id, job.hostname), (job, []))[1].append(host)
    known = [_launch(launch_id, list(listed.values())) for launch_id, listed in together.items()]
    return sorted(known, key=lambda launch: max(job.started_at or 0.0 for job in launch.jobs), reverse=True)


def _launch(launch_id: str, listed: Sequence[tuple[JobThere, Sequence[str]]]) -> LaunchThere:
    hosts = dict.fromkeys(host for _, names in listed for host in names)
    return LaunchThere(
        launch_id,
        tuple(job for job, _ in listed),
        tuple(hosts),
        tuple((names[0] if len(names) == 1 else job.hostname or names[0], job.state) for job, names in listed),
    )


def text_of(line: bytes) -> str:
    """Return a line of a host's as plain text."""
    return printable(strip_controls(line.decode(errors="replace")))
