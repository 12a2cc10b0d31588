"""Runs without a journal over several machines, as runs whose ranks can be asked where they are. Pure.

Ranks with the same ``GPUTOP_RUN_ID`` are one run, and so are ranks that meet at one address (``untracked``). A run has no
journal before its first step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputop.joined.runs import JoinedRun, Part, Seen, shifted
from gputop.joined.untracked import meeting
from gputop.process import ProcessRun
from gputop.snapshot import Rank, Run
from gputop.whereabouts.records import WhereQuestion


@dataclass(frozen=True, slots=True)
class AskableRun:
    """One run without a journal.

    ``questions``: what to ask each host; ``starting``: whether gputop started it and has seen no step yet.
    """

    run: JoinedRun
    questions: Mapping[str, WhereQuestion]
    starting: bool


@dataclass(frozen=True, slots=True)
class _Piece:
    seen: Seen
    run: ProcessRun

    @property
    def ranks(self) -> tuple[Rank, ...]:
        hostname = self.seen.snapshot.host.hostname
        return tuple(
            Rank(rank.rank, rank.pid, hostname, rank.local_rank, self.run.world_size)
            for rank in self.run.ranks
            if rank.rank is not None
        )


def askable_runs(seen: Sequence[Seen]) -> tuple[AskableRun, ...]:
    """Return the runs of these snapshots that have numbered ranks and no journal, the newest first."""
    groups: dict[object, list[_Piece]] = {}
    for one, run in _listed(seen):
        environments = {process.pid: process.environment for process in one.snapshot.processes}
        first = next((known for rank in run.ranks if (known := environments.get(rank.pid)) is not None), None)
        meets = first and (first.gputop_run_id or meeting(run, first))
        groups.setdefault(meets or (one.host, run.key), []).append(_Piece(one, run))
    found = [_joined(pieces) for group in groups.values() for pieces in _apart(group)]
    return tuple(sorted(found, key=lambda item: item.run.run.created_at or 0.0, reverse=True))


def _listed(seen: Sequence[Seen]) -> list[tuple[Seen, ProcessRun]]:
    """Return the runs with numbered ranks, each once: one machine may have two names, or directories of two users' runs."""
    found: dict[object, tuple[Seen, ProcessRun]] = {}
    for one in seen:
        for run in one.snapshot.process_runs:
            if not run.ranks or any(rank.rank is None for rank in run.ranks):
                continue
            key = (one.snapshot.host.hostname, one.snapshot.host.boot_id, tuple(rank.pid for rank in run.ranks))
            if key not in found or (run.starting and not found[key][1].starting):
                found[key] = one, run
    return list(found.values())


def _apart(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Return the pieces as one run (a host may have several); as separate runs if two of them have the same rank."""
    ranks = [rank.rank for piece in pieces for rank in piece.ranks]
    return [pieces] if len(set(ranks)) == len(ranks) else [[piece] for piece in pieces]


def _joined(pieces: Sequence[_Piece]) -> AskableRun:
    first = pieces[0].run
    created = [shifted(piece.run.started_at, piece.seen.clock_offset_s) for piece in pieces]
    run = Run(
        first.key,
        first.name,
        created_at=min((at for at in created if at is not None), default=None),
        world_size=max((piece.run.world_size or 0 for piece in pieces), default=0) or None,
        ranks=tuple(sorted((rank for piece in pieces for rank in piece.ranks), key=lambda rank: rank.rank)),
    )
    hosts: dict[str, list[_Piece]] = {}
    for piece in pieces:
        hosts.setdefault(piece.seen.host, []).append(piece)
    parts = tuple(Part(host, tuple(sorted(rank.rank for one in own for rank in one.ranks)), {}) for host, own in hosts.items())
    questions = {
        host: WhereQuestion(own[0].run.key, tuple(rank.pid for one in own for rank in one.run.ranks))
        for host, own in hosts.items()
    }
    return AskableRun(JoinedRun(run, parts, tuple(questions)), questions, any(piece.run.starting for piece in pieces))
