"""One reading of several hosts as plain text: the tables of each host, then the runs of all, joined by run id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gputop.cli.once import RUN_COLUMNS, machine_lines, process_run_lines, run_row
from gputop.cli.table import table
from gputop.hosts.stream import Heard
from gputop.snapshot import LIVE_STATES, Rank, Run
from gputop.terminal_text import printable
from gputop.tracking.reader.stopped import worst


def hosts_text(heard: Sequence[Heard]) -> str:
    """Return the readings as lines of text, without a final newline."""
    parts: list[str] = []
    for one in heard:
        parts += [""] if parts else []
        if one.snapshot is None:
            parts.append(one.status.sentence)
            continue
        first, *rest = machine_lines(one.snapshot)
        host, name = one.status.host, one.snapshot.host.hostname
        parts += [first if name == host else f"{host} = {first}", *rest]
        if one.snapshot.process_runs:
            parts += ["", *process_run_lines(one.snapshot)]
    rows = [(*run_row(run, source), ", ".join(hosts)) for run, source, hosts in joined_runs(heard)]
    if rows:
        parts += ["", *table((*RUN_COLUMNS, "HOST"), rows)]
    return "\n".join(map(printable, parts))


def joined_runs(heard: Iterable[Heard]) -> list[tuple[Run, str | None, tuple[str, ...]]]:
    """Return (run, where its curve comes from, hosts) of the live runs: those with the same id are one run.

    Hosts with a common file system see each other's ranks: of a rank that several know, the one heard of last counts.
    """
    found: dict[str, tuple[Run, str | None, tuple[str, ...]]] = {}
    for one in heard:
        snapshot = one.snapshot
        if snapshot is None:
            continue
        sources = {curve.run_id: curve.source for run in snapshot.process_runs for curve in run.curves}
        for run in snapshot.runs:
            source = sources.get(run.run_id)
            hosts: tuple[str, ...] = (one.status.host,)
            # The curve of an untracked run has an id that another machine may give too.
            key = run.run_id if source is None else f"{one.status.host} {run.run_id}"
            before = found.get(key)
            if before is not None:
                run, hosts = _joined(before[0], run), (*before[2], *hosts)
            found[key] = run, source, hosts
    return [item for item in found.values() if item[0].state in LIVE_STATES]


def _joined(first: Run, second: Run) -> Run:
    ranks: dict[int, Rank] = {}
    for rank in sorted(
        (*first.ranks, *second.ranks), key=lambda rank: (rank.last_log_at or 0.0, rank.state not in LIVE_STATES)
    ):
        ranks[rank.rank] = rank
    ordered = tuple(ranks[number] for number in sorted(ranks))
    return replace(first, ranks=ordered, state=worst(rank.state for rank in ordered) if ordered else first.state)
