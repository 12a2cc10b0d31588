"""``gputop jobs``, ``logs`` and ``stop`` with ``-H``: the jobs of several hosts. Those of one launch share a row."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gputop import units
from gputop.errors import EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, UsageError
from gputop.hosts import checked
from gputop.hosts.errand import End, Errands
from gputop.hosts.transport import Transport
from gputop.jobs.job import ACTIVE
from gputop.terminal_text import printable, strip_controls
from gputop.wire import FormatError, decode

JOBS_MOST = 10_000
"""Jobs of one host that are listed."""
TAKE_S = 0.2
LISTED_BY = "gputop jobs -H lists them."
HEAD = ("JOB", "STATE", "RECIPE", "GPUS", "TIME", "EXIT", "HOST")


@dataclass(frozen=True, slots=True)
class JobThere:
    """A job as a host reports it. Times are by the host's clock."""

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
    ends = run_there(hosts, transport, ["jobs", "--json"], lambda host, line: found.setdefault(host, _jobs_in(line)))
    return {host: found[host] for host in hosts if host in found}, ends


def stop_over(hosts: Sequence[str], transport: Transport, job_id: str, say: Callable[[str], object] = print) -> int:
    """Stop a job, or all jobs of a launch, on the hosts at once; return 1 if one of its processes may be left.

    Raises:
        UsageError: no host has such a job.
    """
    ends = run_there(hosts, transport, ["stop", job_id], lambda host, line: say(f"{host}: {shown_line(line)}"))
    return tell(failed(ends, LISTED_BY))


def logs_over(hosts: Sequence[str], transport: Transport, job_id: str, *, follow: bool) -> int:
    """Print the end of the logs of a job, or of all jobs of a launch, on the hosts; with ``follow``, also what follows.

    Raises:
        UsageError: no host has such a job.
    """
    words = ["logs", job_id, *(["--follow", "--until-closed"] if follow else [])]
    ends = run_there(hosts, transport, words, lambda host, line: print(f"{host} | {shown_line(line)}", flush=True))
    wrong = failed(ends, LISTED_BY)
    for host, end in ends.items():
        if host not in wrong and end.words:  # why it failed, as gputop there explains it
            print(f"\n{host}:", *map(printable, end.words), sep="\n", file=sys.stderr)
    return tell(wrong)


def run_there(
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


def tell(wrong: Mapping[str, End]) -> int:
    """Say on standard error what went wrong on hosts; return the exit code."""
    sys.stdout.flush()
    for host, end in wrong.items():
        print(printable(end.sentence(host)), file=sys.stderr)
    return EXIT_PROBLEM if wrong else EXIT_OK


def failed(ends: Mapping[str, End], hint: str) -> dict[str, End]:
    """Return how a command ended on the hosts where it failed.

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


def rows(found: Mapping[str, Sequence[JobThere]], now: float) -> list[tuple[str, ...]]:
    """Return a row of ``HEAD`` for each job, the newest first; the jobs of one launch are one row."""
    launches: dict[str, list[tuple[str, JobThere]]] = {}
    listed: set[tuple[str, str | None]] = set()
    for host, jobs in found.items():
        for job in jobs:
            if (job.id, job.hostname) not in listed:  # hosts may share a home directory
                listed.add((job.id, job.hostname))
                launches.setdefault(job.launch_id or job.id, []).append((host, job))
    newest = sorted(launches.items(), key=lambda item: max(job.started_at or 0.0 for _, job in item[1]), reverse=True)
    return [_row(job_id, parts, now) for job_id, parts in newest]


def _row(job_id: str, parts: Sequence[tuple[str, JobThere]], now: float) -> tuple[str, ...]:
    jobs = [job for _, job in parts]
    states = list(dict.fromkeys(job.state for job in jobs))
    begun = [job.started_at for job in jobs if job.started_at is not None]
    ended = [job.ended_at for job in jobs]
    known = [at for at in ended if at is not None]
    end = max(known) if len(known) == len(ended) else now if len(known) < len(ended) and _is_active(states) else None
    took = max(0.0, end - min(begun)) if end is not None and begun else None
    codes = [job.signal or ("" if job.exit_code is None else str(job.exit_code)) for job in jobs]
    hosts = ", ".join(host if len(states) == 1 else f"{host} {job.state}" for host, job in parts)
    name = jobs[0].recipe_id or jobs[0].name
    gpus = str(sum(len(job.device_uuids) for job in jobs))
    return (job_id, states[0] if len(states) == 1 else "mixed", name, gpus, units.duration(took), _one(codes), hosts)


def _is_active(states: Sequence[str]) -> bool:
    return any(state in ACTIVE for state in states)


def _one(values: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value))


def shown_line(line: bytes) -> str:
    """Return a line that a host printed, as it can be printed here."""
    return printable(strip_controls(line.decode(errors="replace")))
