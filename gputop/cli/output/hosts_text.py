"""One reading of several hosts as plain text: the tables of each host, then the runs of all, joined by run id."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gputop import units
from gputop.cli.output.once import RUN_COLUMNS, machine_lines, process_run_lines, run_row
from gputop.hosts.stream import Heard
from gputop.joined.machines import named_twice, same_machine
from gputop.joined.rendezvous import rendezvous_text, waiting_rendezvous
from gputop.joined.runs import Seen, join
from gputop.joined.untracked import untracked_runs
from gputop.snapshot import LIVE_STATES
from gputop.terminal_text import printable, table


def hosts_text(heard: Sequence[Heard]) -> str:
    """Return the readings as lines of text, without a final newline."""
    parts: list[str] = []
    seen = [Seen(one.status.host, one.snapshot, one.status.clock_offset_s or 0.0) for one in heard if one.snapshot is not None]
    twice = named_twice(seen)
    seen = [one for one in seen if one.host not in twice]
    for one in heard:
        parts += [""] if parts else []
        if one.snapshot is None:
            parts.append(one.status.sentence)
            continue
        if one.status.host in twice:
            parts.append(f"{one.status.host}: {same_machine(twice[one.status.host])}.")
            continue
        first, *rest = machine_lines(one.snapshot)
        host, name = one.status.host, one.snapshot.host.hostname
        if one.snapshot.host.source == "prometheus":
            first += f"; sampled {units.duration(max(0.0, time.time() - one.snapshot.time))} ago"
        parts += [first if name == host else f"{host} = {first}", *rest]
        if one.snapshot.process_runs:
            parts += ["", *process_run_lines(one.snapshot)]
    over = [
        (
            run.name,
            f"{sum(len(part.ranks) for part in run.parts)}/{run.world_size}",
            units.ranges(run.missing) if run.missing else "-",
            run.meets_at,
            ", ".join(part.host for part in run.parts),
        )
        for run in untracked_runs(seen)
    ]
    if over:
        parts += ["", *table(("NOT TRACKED OVER HOSTS", "RANKS", "MISSING", "MEETS AT", "HOST"), over)]
    unread = [one.status.host for one in heard if one.snapshot is None]
    for meeting in waiting_rendezvous(seen, time.time()):
        parts += ["", f"{meeting.name} is not tracked and has no rank yet: {rendezvous_text(meeting, unread)}."]
    live = [joined for joined in join(seen) if joined.run.state in LIVE_STATES]
    rows = [(*run_row(joined.run, joined.source), ", ".join(joined.places)) for joined in live]
    if rows:
        parts += ["", *table((*RUN_COLUMNS, "HOST"), rows)]
    return "\n".join(map(printable, parts))
