"""``gputop runs`` and ``gputop runs show`` with ``-H``: the runs of several hosts. A run over several hosts is one run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gputop.cli.across.jobs import report_failures
from gputop.errors import UsageError
from gputop.hosts import checked
from gputop.hosts.errand import End
from gputop.hosts.transport import Transport
from gputop.joined.runs import JoinedRun, Seen, join
from gputop.over_hosts.jobs import clock_offset_s, explained, failed, one_record, run_over, text_of
from gputop.snapshot import Host, ProcessRun, Run, Snapshot
from gputop.wire import FormatError, decode


@dataclass(frozen=True, slots=True)
class RunsThere:
    """The runs of one machine, as ``gputop runs --json`` prints them. ``time`` is its clock."""

    hostname: str
    time: float
    runs: tuple[Run, ...] = ()
    """Tracked runs, newest first, without the facts of their ranks."""
    not_tracked: tuple[ProcessRun, ...] = ()
    curves: tuple[Run, ...] = field(default=())
    """What is known about the metrics of untracked runs, by ``ProcessRun.run_id``."""
    clock_offset_s: float = 0.0
    """Its clock minus this machine's; 0 if they differ by less than the answer's possible travel time."""


def runs_of(
    hosts: Sequence[str], transport: Transport, wanted: str | None = None
) -> tuple[dict[str, RunsThere], dict[str, End]]:
    """Return the runs of each host that could be read, and how the reading of each host ended. ``wanted`` is a filter."""
    found: dict[str, RunsThere] = {}

    def take(host: str, line: bytes) -> None:
        there = _runs_in(line)
        if there is not None:
            found[host] = replace(there, clock_offset_s=clock_offset_s(there.time, time.time()))

    ends = run_over(hosts, transport, ["runs", "--json", *(["--filter", wanted] if wanted else [])], take, one_record())
    return {host: found[host] for host in hosts if host in found}, explained(ends, found)


def _runs_in(line: bytes) -> RunsThere | None:
    try:
        there = decode(RunsThere, checked.data_in(line))
    except FormatError:
        return None
    most = checked.MOST["runs"]
    runs = tuple(replace(run, ranks=run.ranks[: checked.RANKS_MOST]) for run in there.runs[:most])
    return replace(there, runs=runs, not_tracked=there.not_tracked[:most], curves=there.curves[:most])


def joined_runs(found: Mapping[str, RunsThere]) -> list[JoinedRun]:
    """Return the tracked runs of all hosts, each once, newest first, with times by this machine's clock."""
    seen = [
        Seen(host, Snapshot(0, there.time, 0.0, 1.0, Host(there.hostname), runs=there.runs), there.clock_offset_s)
        for host, there in found.items()
    ]
    return sorted(join(seen), key=lambda joined: joined.run.created_at or 0.0, reverse=True)


def show_over(
    hosts: Sequence[str],
    transport: Transport,
    name: str,
    *,
    as_json: bool,
    everything: bool,
) -> int:
    """Print everything that each host knows about a run; return 1 if a host could not be read.

    Raises:
        UsageError: no host has such a run.
    """
    lines: dict[str, list[bytes]] = {}
    words = ["runs", "show", name, *(["--json"] if as_json else []), *(["--all"] if everything else [])]
    ends = run_over(
        hosts, transport, words, lambda host, line: lines.setdefault(host, []).append(line), one_record() if as_json else None
    )
    wrong = failed(ends, "gputop runs -H lists them.")
    known = {host: lines.get(host, []) for host in hosts if host not in wrong}
    if as_json:
        print(json.dumps({host: _record(known.get(host, [])) for host in hosts}))
    else:
        print("\n\n".join("\n".join([f"{host}:", "", *map(text_of, held)]) for host, held in known.items()))
    # A host without the run does not count as unreadable.
    return report_failures(
        {host: end for host, end in wrong.items() if end.failure is not None or end.code != UsageError.exit_code}
    )


def _record(lines: Sequence[bytes]) -> object:
    try:
        return checked.data_in(lines[-1]) if lines else None
    except FormatError:
        return None
