"""What hosts tell of their jobs, and what they are asked to do with one. Those of one launch belong together, by its id."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gputop.errors import EXIT_OK, EXIT_USAGE, UsageError
from gputop.hosts import checked
from gputop.hosts.errand import End, Errands
from gputop.hosts.transport import Transport
from gputop.terminal_text import printable, strip_controls
from gputop.wire import FormatError, decode

JOBS_MOST = 10_000
"""Jobs of one host that are listed."""
TAKE_S = 0.2
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


def jobs_of(hosts: Sequence[str], transport: Transport) -> tuple[dict[str, list[JobThere]], dict[str, End]]:
    """Return the jobs of each host that could be read, and how reading ended on each."""
    found: dict[str, list[JobThere]] = {}
    ends = run_over(hosts, transport, ["jobs", "--json"], lambda host, line: found.setdefault(host, _jobs_in(line)))
    return {host: found[host] for host in hosts if host in found}, ends


def stop_over(
    hosts: Sequence[str], transport: Transport, job_id: str, say: Callable[[str], object] = lambda line: None
) -> dict[str, End]:
    """Stop a job, or all jobs of a launch, on the hosts at once; return the hosts where a process of it may be left.

    Raises:
        UsageError: no host has such a job.
    """
    return failed(run_over(hosts, transport, ["stop", job_id], lambda host, line: say(f"{host}: {text_of(line)}")))


def run_over(
    hosts: Sequence[str], transport: Transport, words: Sequence[str], take: Callable[[str, bytes], object]
) -> dict[str, End]:
    """Run a command of gputop on each host; return how it ended there, in the order of the hosts."""
    errands = Errands(transport, hosts, words)
    with contextlib.closing(errands):
        errands.start()
        while errands.running:
            said = errands.take(TAKE_S)
            if said is not None and said.end is None:
                take(said.host, said.line)
        return {host: errands.ends[host] for host in hosts}


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


def launches(found: Mapping[str, Sequence[JobThere]]) -> list[tuple[str, list[tuple[str, JobThere]]]]:
    """Return the jobs of each launch with their hosts, the newest launch first; a job of its own is a launch, too."""
    together: dict[str, list[tuple[str, JobThere]]] = {}
    listed: set[tuple[str, str | None]] = set()
    for host, jobs in found.items():
        for job in jobs:
            if (job.id, job.hostname) not in listed:  # hosts may share a home directory
                listed.add((job.id, job.hostname))
                together.setdefault(job.launch_id or job.id, []).append((host, job))
    return sorted(together.items(), key=lambda item: max(job.started_at or 0.0 for _, job in item[1]), reverse=True)


def text_of(line: bytes) -> str:
    """Return a line of a host's as plain text."""
    return printable(strip_controls(line.decode(errors="replace")))
