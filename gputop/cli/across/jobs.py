"""``gputop jobs``, ``logs`` and ``stop`` with ``-H``. The jobs of one launch share a row, under its id."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from gputop import units
from gputop.errors import EXIT_OK, EXIT_PROBLEM
from gputop.hosts.errand import NO_LIMITS, End
from gputop.hosts.transport import Transport
from gputop.jobs.job import ACTIVE
from gputop.joined.launches import lost_nodes
from gputop.over_hosts.jobs import (
    HostJob,
    HostLaunch,
    failed,
    launches,
    may_still_run,
    run_over,
    stop_command,
    stop_over,
    text_of,
)
from gputop.snapshot import JOB_ENDED_BADLY
from gputop.terminal_text import printable

HEAD = ("JOB", "STATE", "RECIPE", "GPUS", "TIME", "EXIT", "HOST")


def stop(hosts: Sequence[str], transport: Transport, job_id: str) -> int:
    """Stop a job, or all jobs of a launch, on all hosts at once; return 1 if one of its processes may be left.

    Raises:
        UsageError: no host has such a job.
    """
    left = stop_over(hosts, transport, job_id, print)
    code = report_failures(left)
    if left:
        print(printable(may_still_run(left, transport, job_id)), file=sys.stderr)
    return code


def logs(hosts: Sequence[str], transport: Transport, job_id: str, *, follow: bool) -> int:
    """Print the end of the logs of a job, or of all jobs of a launch, on the hosts; with ``follow``, also new lines.

    Raises:
        UsageError: no host has such a job.
    """
    words = ["logs", job_id, *(["--follow", "--until-closed"] if follow else [])]
    limits = NO_LIMITS if follow else None
    ends = run_over(hosts, transport, words, lambda host, line: print(f"{host} | {text_of(line)}", flush=True), limits)
    wrong = failed(ends)
    for host, end in ends.items():
        if host not in wrong and end.words:  # why it failed, as gputop on that host explains it
            print(f"\n{host}:", *map(printable, end.words), sep="\n", file=sys.stderr)
    return report_failures(wrong)


def report_failures(wrong: Mapping[str, End]) -> int:
    """Report on standard error what went wrong on hosts; return the exit code."""
    sys.stdout.flush()
    for host, end in wrong.items():
        print(printable(end.sentence(host)), file=sys.stderr)
    return EXIT_PROBLEM if wrong else EXIT_OK


def rows(found: Mapping[str, Sequence[HostJob]], now: float) -> list[tuple[str, ...]]:
    """Return a row of ``HEAD`` for each job, the newest first; the jobs of one launch share a row."""
    return [_row(launch, now) for launch in launches(found)]


def broken(found: Mapping[str, Sequence[HostJob]], transport: Transport) -> list[str]:
    """Return a sentence for each launch that continues although it has failed on some of its hosts."""
    said = []
    for launch in launches(found):
        there = [host for host, state in launch.states if state in ACTIVE]
        ended = [(host, state) for host, state in launch.states if state in JOB_ENDED_BADLY]
        if there and ended:
            said.append(
                f"{launch.id} was {lost_nodes(ended, there)}. Stop it: {stop_command(launch.hosts, transport, launch.id)}"
            )
    return said


def _row(launch: HostLaunch, now: float) -> tuple[str, ...]:
    jobs = launch.jobs
    states = list(dict.fromkeys(job.state for job in jobs))
    begun = [job.started_at for job in jobs if job.started_at is not None]
    ended = [job.ended_at for job in jobs]
    known = [at for at in ended if at is not None]
    end = max(known) if len(known) == len(ended) else now if len(known) < len(ended) and _is_active(states) else None
    took = max(0.0, end - min(begun)) if end is not None and begun else None
    codes = [job.signal or ("" if job.exit_code is None else str(job.exit_code)) for job in jobs]
    hosts = ", ".join(launch.hosts) if len(states) == 1 else launch.states_text
    name = jobs[0].recipe_id or jobs[0].name
    gpus = str(sum(len(job.device_uuids) for job in jobs) or units.UNKNOWN)
    return (launch.id, states[0] if len(states) == 1 else "mixed", name, gpus, units.duration(took), _one(codes), hosts)


def _is_active(states: Sequence[str]) -> bool:
    return any(state in ACTIVE for state in states)


def _one(values: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value))
