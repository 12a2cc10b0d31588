"""Joins untracked runs over several machines, by the address or the Slurm job through which their ranks find each other. Pure.

Ranks that meet at one address are one run: torchrun gives every worker MASTER_ADDR and MASTER_PORT, however its nodes met.
Nothing is joined that only looks alike: a loopback address (torch's defaults are the same everywhere), another world size, a
rank that two machines have, a script of another name, or a run that is whole on one machine.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gputop.joined.runs import Part, Seen
from gputop.process import LaunchEnvironment, ProcessRun


@dataclass(frozen=True, slots=True)
class JoinedProcessRun:
    """One run over machines, as its processes show it."""

    name: str
    world_size: int
    meets_at: str
    """"gpu1:29500"; "Slurm job 42" where the script itself says where its ranks meet."""
    parts: tuple[Part, ...]
    """The ranks that each host lists, in the order of the hosts."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that no host lists."""
        seen = {rank for part in self.parts for rank in part.ranks}
        return tuple(rank for rank in range(self.world_size) if rank not in seen)

    @property
    def silent(self) -> tuple[str, ...]:
        """The hosts with ranks of the run whose link is lost."""
        return tuple(part.host for part in self.parts if not part.current)

    def as_data(self) -> dict[str, Any]:
        """Return the run for JSON. A host that is not ``current`` is listed by its last reading."""
        parts = [{"host": part.host, "ranks": list(part.ranks), "current": part.current} for part in self.parts]
        return {
            "name": self.name,
            "world_size": self.world_size,
            "meets_at": self.meets_at,
            "hosts": parts,
            "missing_ranks": list(self.missing),
        }


@dataclass(frozen=True, slots=True)
class _Piece:
    seen: Seen
    run: ProcessRun
    ranks: tuple[int, ...]

    @property
    def host(self) -> str:
        return self.seen.host


Meeting = tuple[str, str, int, str | None]
"""Where the ranks meet, the script, how many ranks there are, torchrun's id."""


def untracked_runs(seen: Sequence[Seen]) -> tuple[JoinedProcessRun, ...]:
    """Return the untracked runs that have ranks on several machines, in the order of the hosts."""
    groups: dict[Meeting, list[_Piece]] = {}
    for one in seen:
        if not one.snapshot.process_runs:
            continue
        environments = {process.pid: process.environment for process in one.snapshot.processes}
        for run in one.snapshot.process_runs:
            ranks = tuple(sorted(rank.rank for rank in run.ranks if rank.rank is not None))
            first = next((found for rank in run.ranks if (found := environments.get(rank.pid)) is not None), None)
            key = meeting(run, first) if first is not None else None
            if key is not None and ranks and len(ranks) == len(run.ranks) < key[2]:
                groups.setdefault(key, []).append(_Piece(one, run, ranks))
    return tuple(run for run in (_joined(key, pieces) for key, pieces in groups.items()) if run is not None)


def _joined(key: Meeting, pieces: Sequence[_Piece]) -> JoinedProcessRun | None:
    ranks = [rank for piece in pieces for rank in piece.ranks]
    hosts = dict.fromkeys(piece.host for piece in pieces)
    if len(hosts) < 2 or len(set(ranks)) < len(ranks) or max(ranks) >= key[2]:
        return None
    parts = tuple(_part([piece for piece in pieces if piece.host == host]) for host in hosts)
    return JoinedProcessRun(key[1], key[2], key[0], parts)


def _part(pieces: Sequence[_Piece]) -> Part:
    """Return the ranks on one host; several launchers there may have started them."""
    home = pieces[0].seen
    index = {device.uuid: device.index for device in home.snapshot.devices}
    uses = {process.pid: process.devices for process in home.snapshot.processes}
    devices = {
        rank.rank: tuple(sorted({index[use.device_uuid] for use in uses.get(rank.pid, ()) if use.device_uuid in index}))
        for piece in pieces
        for rank in piece.run.ranks
        if rank.rank is not None
    }
    return Part(home.host, tuple(sorted(devices)), devices, current=home.current)


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
