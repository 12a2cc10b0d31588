"""Readings of several hosts as JSON: one object for each, with the untracked runs over hosts that have ranks on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from gputop.hosts.state import SHOWING_STATES, HostStatus
from gputop.hosts.stream import Heard
from gputop.joined.machines import named_twice
from gputop.joined.runs import Seen
from gputop.joined.untracked import JoinedProcessRun, Pieces, untracked_runs
from gputop.snapshot import Snapshot
from gputop.wire import encode


def once_lines(heard: Sequence[Heard]) -> list[str]:
    """Return a line for each host: its state, its snapshot or null, and its runs over hosts by the readings of all."""
    snapshots = {one.status.host: one.snapshot for one in heard if one.snapshot is not None}
    seen = _seen(snapshots, [one.status for one in heard])
    twice = named_twice(seen)
    over = untracked_runs([one for one in seen if one.host not in twice])
    return [_line(one, twice, over) for one in heard]


class StreamLines:
    """The same for a stream: each line uses the newest readings of all hosts."""

    def __init__(self) -> None:
        self._newest: dict[str, Snapshot] = {}
        self._pieces = Pieces()

    def line(self, heard: Heard, statuses: Iterable[HostStatus]) -> str:
        """Return a line with news of a host; ``statuses`` are those of all hosts now, in their order."""
        if heard.snapshot is None:
            return _line(heard, {}, ())
        self._newest[heard.status.host] = heard.snapshot
        seen = _seen(self._newest, statuses)
        twice = named_twice(seen)
        once = [one for one in seen if one.host not in twice]
        return _line(heard, twice, untracked_runs(once, self._pieces) if heard.snapshot.process_runs else ())


def _seen(newest: Mapping[str, Snapshot], statuses: Iterable[HostStatus]) -> list[Seen]:
    return [
        Seen(status.host, newest[status.host], status.clock_offset_s or 0.0, status.state in SHOWING_STATES)
        for status in statuses
        if status.host in newest
    ]


def _line(heard: Heard, twice: Mapping[str, str], over: Sequence[JoinedProcessRun]) -> str:
    """Return one object. Runs are null where processes are not known: without a snapshot, or with one of Prometheus."""
    is_known = heard.snapshot is not None and heard.snapshot.host.source != "prometheus"
    other = twice.get(heard.status.host) if heard.snapshot is not None else None
    host = other or heard.status.host
    here = [run.as_data() for run in over if any(part.host == host for part in run.parts)]
    about = {**encode(heard.status), "same_machine_as": other, "untracked_over_hosts": here if is_known else None}
    snapshot = heard.snapshot.to_json() if heard.snapshot is not None else "null"
    return f'{json.dumps(about)[:-1]}, "snapshot": {snapshot}}}'
