"""Readings of several hosts as JSON: one object for each, with the untracked runs over hosts that have ranks on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from gputop.hosts.state import SHOWING_STATES, HostStatus
from gputop.hosts.stream import Heard
from gputop.joined.runs import Seen
from gputop.joined.untracked import JoinedProcessRun, Pieces, untracked_runs
from gputop.snapshot import Snapshot
from gputop.wire import encode


def once_lines(heard: Sequence[Heard]) -> list[str]:
    """Return a line for each host: its state, its snapshot or null, and its runs over hosts by the readings of all."""
    snapshots = {one.status.host: one.snapshot for one in heard if one.snapshot is not None}
    over = _over(snapshots, [one.status for one in heard], Pieces())
    return [_line(one, over) for one in heard]


class StreamLines:
    """The same for a stream: each line uses the newest readings of all hosts."""

    def __init__(self) -> None:
        self._newest: dict[str, Snapshot] = {}
        self._pieces = Pieces()

    def line(self, heard: Heard, statuses: Iterable[HostStatus]) -> str:
        """Return a line with news of a host; ``statuses`` are those of all hosts now, in their order."""
        if heard.snapshot is None:
            return _line(heard, ())
        self._newest[heard.status.host] = heard.snapshot
        return _line(heard, _over(self._newest, statuses, self._pieces) if heard.snapshot.process_runs else ())


def _over(newest: dict[str, Snapshot], statuses: Iterable[HostStatus], pieces: Pieces) -> tuple[JoinedProcessRun, ...]:
    return untracked_runs(
        [
            Seen(status.host, newest[status.host], status.clock_offset_s or 0.0, status.state in SHOWING_STATES)
            for status in statuses
            if status.host in newest
        ],
        pieces,
    )


def _line(heard: Heard, over: Sequence[JoinedProcessRun]) -> str:
    """Return one object. Runs are null where processes are not known: without a snapshot, or with one of Prometheus."""
    is_known = heard.snapshot is not None and heard.snapshot.host.source != "prometheus"
    here = [run.as_data() for run in over if any(part.host == heard.status.host for part in run.parts)]
    status = json.dumps({**encode(heard.status), "untracked_over_hosts": here if is_known else None})
    snapshot = heard.snapshot.to_json() if heard.snapshot is not None else "null"
    return f'{status[:-1]}, "snapshot": {snapshot}}}'
