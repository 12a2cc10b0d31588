"""Joins runs that gputop does not track over several machines, by what their ranks were given to find one another. Pure.

Ranks that meet at one address are one run: torchrun gives every worker MASTER_ADDR and MASTER_PORT, however its nodes met.
Nothing is joined that only looks alike: a loopback address (torch's defaults are the same everywhere), another world size, a
rank that two machines have, a script of another name, or a run that is whole on one machine.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from gputop.joined.runs import Seen
from gputop.process import LaunchEnvironment, ProcessRun


@dataclass(frozen=True, slots=True)
class JoinedProcessRun:
    """One run over machines, as its processes show it."""

    name: str
    world_size: int
    meets_at: str
    """"gpu1:29500"; "Slurm job 42" where the script itself says where its ranks meet."""
    parts: tuple[tuple[str, tuple[int, ...]], ...]
    """The hosts, in their order, and the ranks that each of them lists."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that no host lists."""
        seen = {rank for _, ranks in self.parts for rank in ranks}
        return tuple(rank for rank in range(self.world_size) if rank not in seen)


@dataclass(frozen=True, slots=True)
class _Piece:
    host: str
    ranks: tuple[int, ...]


Meeting = tuple[str, str, int, str | None]
"""Where the ranks meet, the script, how many ranks there are, torchrun's id."""


def untracked_runs(seen: Sequence[Seen]) -> tuple[JoinedProcessRun, ...]:
    """Return the untracked runs that have ranks on several machines, in the order of the hosts."""
    groups: dict[Meeting, list[_Piece]] = {}
    for one in seen:
        environments = {process.pid: process.environment for process in one.snapshot.processes}
        for run in one.snapshot.process_runs:
            ranks = tuple(sorted(rank.rank for rank in run.ranks if rank.rank is not None))
            first = next((found for rank in run.ranks if (found := environments.get(rank.pid)) is not None), None)
            key = meeting(run, first) if first is not None else None
            if key is not None and ranks and len(ranks) == len(run.ranks) < key[2]:
                groups.setdefault(key, []).append(_Piece(one.host, ranks))
    return tuple(run for run in (_joined(key, pieces) for key, pieces in groups.items()) if run is not None)


def _joined(key: Meeting, pieces: Sequence[_Piece]) -> JoinedProcessRun | None:
    ranks = [rank for piece in pieces for rank in piece.ranks]
    hosts = {
        piece.host: tuple(sorted(rank for one in pieces if one.host == piece.host for rank in one.ranks)) for piece in pieces
    }
    if len(hosts) < 2 or len(set(ranks)) < len(ranks) or max(ranks) >= key[2]:
        return None
    return JoinedProcessRun(key[1], key[2], key[0], tuple(hosts.items()))


def meeting(run: ProcessRun, environment: LaunchEnvironment) -> Meeting | None:
    """Return what the ranks of one run have in common, and those of no other; None where that is not known."""
    settings = dict(environment.settings)
    address, port = settings.get("MASTER_ADDR", ""), environment.master_port
    slurm = settings.get("SLURM_JOB_ID")
    if run.world_size is None or (address and _is_loopback(address)):
        return None
    if address and port is not None:
        return f"{address}:{port}", run.name, run.world_size, environment.torchelastic_run_id
    return (f"Slurm job {slurm}", run.name, run.world_size, environment.torchelastic_run_id) if slurm else None


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return address.partition(".")[0] in ("localhost", "localhost4", "localhost6", "ip6-localhost")
    return found.is_loopback or found.is_unspecified
