"""The hosts of a run, as its ranks report them. Pure."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.snapshot import LIVE_STATES, Rank, Run


def runs_over_hosts(evidence: Evidence) -> list[tuple[Run, dict[str, list[Rank]]]]:
    """Return the live runs with ranks on several hosts, and the live ranks of each host."""
    snapshot = evidence.snapshot
    found = []
    for run in snapshot.runs if snapshot is not None else ():
        if run.state == "finished":
            continue
        hosts: dict[str, list[Rank]] = {}
        for rank in run.ranks:
            if rank.state in LIVE_STATES and rank.hostname is not None:
                hosts.setdefault(rank.hostname, []).append(rank)
        if len(hosts) > 1:
            found.append((run, hosts))
    return found
