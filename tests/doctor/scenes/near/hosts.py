"""Runs over two hosts, as the hosts' snapshots come together: a host that is slow, behind or alone, and what is near to it.

``PAIRS`` holds each with the fault that it differs from in one thing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.snapshot import Host, Snapshot
from tests.doctor.scenes.near.pairs import Pair, look_alikes
from tests.doctor.tracked import Metrics, ddp
from tests.samples import EPOCH, GIB

HOSTS = ("node1", "node2")


def over_hosts(second: int, metrics: Metrics | None = None, **changes: Any) -> Snapshot:
    """Four ranks on each of two hosts; no process and no device is known, as of a run that is joined over hosts."""
    base = ddp(second, 8, metrics=metrics or paced({}))
    (run,) = base.runs
    ranks = tuple(replace(rank, hostname=HOSTS[rank.rank // 4], last_log_at=EPOCH + second) for rank in run.ranks)
    run = replace(run, ranks=ranks, world_size=8)
    return replace(base, host=Host("joined"), devices=(), processes=(), runs=(run,), **changes)


def paced(backward_s: dict[int, float]) -> Metrics:
    """Steps of 300 ms, whose backward is 180 ms, but on some ranks."""

    def backward(rank: int, step: int) -> float:
        return backward_s.get(rank, 0.18) + (step * 7 + rank) % 5 * 0.002

    return {"step_s": lambda rank, step: 0.3, "phase/backward": backward}


def slow_host(second: int) -> Snapshot:
    return over_hosts(second, paced(dict.fromkeys(range(4, 8), 0.12)))


def slow_rank(second: int) -> Snapshot:
    return over_hosts(second, paced({5: 0.02}))


def standing(second: int, behind: tuple[int, ...], moves: bool = False) -> Snapshot:
    """After ten seconds all ranks stand in a collective, but those ``behind``, which have begun one less."""
    stop = second if moves else min(second, 10)
    base = over_hosts(stop)
    (run,) = base.runs
    ranks = []
    for rank in run.ranks:
        begun = 700 + 3 * stop - (rank.rank in behind)
        place = {
            "line": "train.py:41",
            "function": "main",
            "stack": ["train.py:41 main"],
            "phase": "data" if rank.rank in behind else "backward",
            "operation": None,
            "begun": begun,
            "completed": begun - (rank.rank not in behind),
            "step": rank.step,
            "since": EPOCH + stop,
            "told": EPOCH + stop,
        }
        ranks.append(replace(rank, facts={**rank.facts, "standing": place}))
    clock = over_hosts(second)
    points = base.points if stop == second else ()
    return replace(clock, runs=(replace(run, ranks=tuple(ranks)),), points=points)


def alone(second: int, hosts: tuple[str, ...]) -> Snapshot:
    """After ten seconds, only ranks of these hosts make steps."""
    base, before = over_hosts(second), over_hosts(min(second, 10))
    (run,), (old,) = base.runs, before.runs
    ranks = tuple(now if now.hostname in hosts else was for now, was in zip(run.ranks, old.ranks, strict=True))
    moving = {rank.rank for rank in ranks if rank.hostname in hosts or second <= 10}
    return replace(base, runs=(replace(run, ranks=ranks),), points=tuple(part for part in base.points if part.rank in moving))


def with_gpus(
    second: int, forward_s: dict[int, float] | None = None, gib: dict[int, int] | None = None, leave_out: tuple[int, ...] = ()
) -> Snapshot:
    """Ranks that time forward on their GPUs (60 ms, of 80 GiB), but on some ranks; and without some ranks."""
    metrics = {**paced({}), "cuda/forward_s": lambda rank, step: (forward_s or {}).get(rank, 0.06) + (step + rank) % 3 * 0.0005}
    base = over_hosts(second, metrics)
    (run,) = base.runs
    memory = {"allocated_bytes": GIB, "reserved_bytes": GIB, "peak_bytes": GIB, "retries": 0, "out_of_memory": 0}
    ranks = tuple(
        replace(
            rank,
            facts={
                **rank.facts,
                "cuda_memory": {**memory, "total_bytes": (gib or {}).get(rank.rank, 80) * GIB, "empty_cache_calls": 0},
            },
        )
        for rank in run.ranks
        if rank.rank not in leave_out
    )
    points = tuple(part for part in base.points if part.rank not in leave_out)
    return replace(base, runs=(replace(run, ranks=ranks, world_size=len(ranks)),), points=points)


def older_cards(second: int) -> Snapshot:
    """The second host has cards of half the memory, which are slower, too."""
    return with_gpus(second, dict.fromkeys(range(4, 8), 0.09), dict.fromkeys(range(4, 8), 40))


def capped_clocks(second: int) -> Snapshot:
    """The same cards, whose clocks somebody has capped on the second host."""
    return with_gpus(second, dict.fromkeys(range(4, 8), 0.072))


def smaller_cards(second: int) -> Snapshot:
    return with_gpus(second, gib=dict.fromkeys(range(4, 8), 40))


def stages_over_hosts(second: int) -> Snapshot:
    """Ranks that hold one stage of the model each: those of the second host have more layers."""
    base = capped_clocks(second)
    (run,) = base.runs
    group = {"process_group": {"backend": "nccl", "world_size": 8, "groups": 3}}
    return replace(base, runs=(replace(run, ranks=tuple(replace(r, facts={**r.facts, **group}) for r in run.ranks)),))


PAIRS = (
    Pair("K04", "stages of a pipeline on hosts with alike cards", stages_over_hosts, capped_clocks, 60),
    Pair("K04", "one slow card of a host", lambda second: with_gpus(second, {5: 0.09}), older_cards, 60),
    Pair("K04", "hosts with alike cards", with_gpus, capped_clocks, 60),
    Pair("K04", "a host with fewer cards", lambda second: with_gpus(second, leave_out=(6, 7)), smaller_cards, 60),
    Pair("K04", "a host with mixed cards", lambda second: with_gpus(second, gib={5: 40}), smaller_cards, 60),
    Pair("K01", "one rank of a host is slow", slow_rank, slow_host, 80),
    Pair("K01", "all hosts are even", over_hosts, slow_host, 80),
    Pair(
        "K02",
        "ranks of both hosts are behind",
        lambda second: standing(second, (3, 6)),
        lambda second: standing(second, (6,)),
        50,
    ),
    Pair(
        "K02",
        "the counts move",
        lambda second: standing(second, (6,), moves=True),
        lambda second: standing(second, (6,)),
        50,
    ),
    Pair(
        "K03",
        "both hosts have stopped",
        lambda second: alone(second, ()),
        lambda second: alone(second, ("node1",)),
        110,
    ),
)
LOOK_ALIKES = look_alikes(PAIRS)
