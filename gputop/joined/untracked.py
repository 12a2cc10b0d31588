"""Joins untracked runs over several machines, by the address or the Slurm job through which their ranks find each other. Pure.

Ranks that meet at one address are one run: torchrun gives every worker MASTER_ADDR and MASTER_PORT, however its nodes met.
Runs that only look alike are not joined: a loopback address (torch's defaults are the same everywhere), another world size, a
rank that two machines have, a script of another name, or a run that is whole on one machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gputop.joined.runs import Part, Seen, absent, silent_hosts
from gputop.process import LaunchEnvironment, ProcessRun
from gputop.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class JoinedProcessRun:
    """One run over machines, as its processes show it."""

    name: str
    world_size: int
    meets_at: str
    """"gpu1:29500"; "Slurm job 42" if the script itself determines where its ranks meet."""
    parts: tuple[Part, ...]
    """The ranks that each host lists, in the order of the hosts."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that no host lists."""
        seen = {rank for part in self.parts for rank in part.ranks}
        return absent(self.world_size, seen)

    @property
    def exchange_id(self) -> str:
        """The doctor's name for a run that it knows only by its traffic between hosts (``exchange_id``)."""
        return exchange_id(part.host for part in self.parts)

    @property
    def silent(self) -> tuple[str, ...]:
        """The hosts with ranks of the run whose link is lost."""
        return silent_hosts(self.parts)

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


def exchange_id(hosts: Iterable[str]) -> str:
    """Return the name of the traffic between these hosts, used as ``Finding.run`` for a run without an id:
    "hosts:gpu1,gpu2"."""
    return f"hosts:{','.join(sorted(hosts))}"


Meeting = tuple[str, str, int, str | None]
"""Where the ranks meet, the script, how many ranks there are, torchrun's id."""


_Ranks = tuple[tuple[int, tuple[int, ...]], ...]
"""Ranks, each with the indexes of the devices that it uses."""
_Piece = tuple[Meeting, _Ranks]
"""The ranks that one launcher started on one host, and where they meet the others."""


class Pieces:
    """Keeps the pieces of such runs in each host's newest snapshot, so that each snapshot is searched once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Snapshot, tuple[_Piece, ...]]] = {}

    def of(self, one: Seen) -> tuple[_Piece, ...]:
        """Return a host's pieces of runs that may have ranks on other hosts."""
        known = self._known.get(one.host)
        if known is None or known[0] is not one.snapshot:
            known = self._known[one.host] = one.snapshot, tuple(_pieces(one.snapshot))
        return known[1]


def untracked_runs(seen: Sequence[Seen], pieces: Pieces | None = None) -> tuple[JoinedProcessRun, ...]:
    """Return the untracked runs that have ranks on several machines, in the order of the hosts.

    If it is called for every snapshot of many hosts, pass the same ``pieces`` each time.
    """
    pieces = pieces or Pieces()
    groups: dict[Meeting, list[tuple[Seen, _Ranks]]] = {}
    for one in seen:
        for key, ranks in pieces.of(one):
            groups.setdefault(key, []).append((one, ranks))
    return tuple(run for run in (_joined(key, found) for key, found in groups.items()) if run is not None)


def _pieces(snapshot: Snapshot) -> Iterator[_Piece]:
    if not snapshot.process_runs:
        return
    index = {device.uuid: device.index for device in snapshot.devices}
    processes = {process.pid: process for process in snapshot.processes}
    for run in snapshot.process_runs:
        listed = [processes[rank.pid] for rank in run.ranks if rank.pid in processes]
        first = next((process.environment for process in listed if process.environment is not None), None)
        key = meeting(run, first) if first is not None else None
        if key is None or len(run.ranks) >= key[2]:
            continue
        uses = {process.pid: process.devices for process in listed}
        ranks = tuple(
            (rank.rank, tuple(sorted({index[use.device_uuid] for use in uses.get(rank.pid, ()) if use.device_uuid in index})))
            for rank in run.ranks
            if rank.rank is not None
        )
        if len(ranks) == len(run.ranks):
            yield key, ranks


def _joined(key: Meeting, pieces: Sequence[tuple[Seen, _Ranks]]) -> JoinedProcessRun | None:
    numbers = [rank for _, ranks in pieces for rank, _ in ranks]
    hosts: dict[str, tuple[Seen, dict[int, tuple[int, ...]]]] = {}
    for one, ranks in pieces:  # several launchers of one host may have started them
        hosts.setdefault(one.host, (one, {}))[1].update(ranks)
    if len(hosts) < 2 or len(set(numbers)) < len(numbers) or max(numbers) >= key[2]:
        return None
    parts = tuple(Part(host, tuple(sorted(own)), own, current=one.current) for host, (one, own) in hosts.items())
    return JoinedProcessRun(key[1], key[2], key[0], parts)


def meeting(run: ProcessRun, environment: LaunchEnvironment) -> Meeting | None:
    """Return what only the ranks of one run have in common; None if that is unknown."""
    settings = dict(environment.settings)
    address, port = settings.get("MASTER_ADDR", ""), environment.master_port
    slurm = settings.get("SLURM_JOB_ID")
    if run.world_size is None or (address and is_loopback(address)):
        return None
    if address and port is not None:
        return f"{address}:{port}", run.name, run.world_size, environment.torchelastic_run_id
    return (f"Slurm job {slurm}", run.name, run.world_size, environment.torchelastic_run_id) if slurm else None


def is_loopback(address: str) -> bool:
    """Return whether an address or a name stands for another machine on each machine."""
    import ipaddress  # few machines need it

    try:
        found = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return address.partition(".")[0] in ("localhost", "localhost4", "localhost6", "ip6-localhost")
    return found.is_loopback or found.is_unspecified
