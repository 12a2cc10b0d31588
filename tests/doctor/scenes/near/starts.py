"""Ranks that wait for one another before their first step (G01), or a launcher for nodes (G06), and what only prepares.

``PAIRS`` holds each with the fault that it differs from in one thing.
"""

from __future__ import annotations

from dataclasses import replace

from gputop.process import ProcessRank, ProcessRun, StatedRank, WaitingLauncher
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import RankPlace
from tests.doctor.scenes.base import gpus, rank, scene
from tests.doctor.scenes.near.pairs import Pair, look_alikes
from tests.samples import EPOCH

WORLD = 3


def at(number: int, since: float, now: float, *, begun: int = 3, **changes: object) -> RankPlace:
    """Where a rank says that it is: in its third collective."""
    place = RankPlace(number, 4000 + number, None, "answers", "rank", "train.py:40", "main", "other", "all_reduce", begun)
    return replace(place, completed=2, since=since, at=now, world_size=WORLD, stack=("train.py:40 main",), **changes)  # type: ignore[arg-type]


def elsewhere(number: int, since: float, now: float, **changes: object) -> RankPlace:
    """Where a rank says that it is: in a function of its own, with one collective less."""
    load = {"line": "train.py:12", "function": "load", "operation": None, "completed": 2}
    return replace(at(number, since, now, begun=2, **changes), **load)  # type: ignore[arg-type]


def starts(
    second: int,
    late: int | None = 2,
    stands_from: int = 2,
    cpu_percent: float = 1.0,
    read_bytes: int = 0,
    crossed: bool = False,
    starting: bool = True,
    known: tuple[int, ...] = (0, 1, 2),
) -> Snapshot:
    """Three ranks of a launch that has made no step: two wait in a collective for one that rests in a function of its own."""
    ranks = tuple(
        replace(rank(n, world=WORLD), run_id=None, rank=n, started_at=EPOCH - 20, autograd_threads=()) for n in range(3)
    )
    calm = {"state": "S", "cpu_percent": 1.0, "read_bytes": 0, "written_bytes": 0, "threads": (("pt_gloo_runloop", 4),)}
    ranks = tuple(replace(item, **calm, nvidia_open=False) for item in ranks)  # type: ignore[arg-type]
    if late is not None:
        own = replace(ranks[late], cpu_percent=cpu_percent, read_bytes=read_bytes)
        ranks = (*ranks[:late], own, *ranks[late + 1 :])
    base = scene(second, gpus([], 4), ranks)
    places: list[RankPlace | None] = [None] * WORLD
    if second >= stands_from + 4:
        since = base.time - (second - stands_from)
        places = [at(number, since, base.time) for number in range(WORLD)]
        if late is not None:
            places[late] = at(late, since, base.time, operation="barrier") if crossed else elsewhere(late, since, base.time)
    listed = tuple(
        ProcessRank(4000 + number, number, number, (), places[number] if number in known else None) for number in range(WORLD)
    )
    run = ProcessRun(
        "launcher:3999", "train.py", listed, world_size=WORLD, local_world_size=WORLD, started_at=EPOCH - 20, starting=starting
    )
    return replace(base, process_runs=(run,))


def prepares(second: int) -> Snapshot:
    """Rank 2 tokenizes a data set; the others wait for it in a barrier, as they are meant to."""
    return starts(second, cpu_percent=95.0)


def reads(second: int) -> Snapshot:
    """Rank 2 reads its data set from a slow disk."""
    return starts(second, read_bytes=second * 20 * 2**20)


def begins(second: int) -> Snapshot:
    """Their places change."""
    return starts(second, stands_from=max(2, second - 3))


def in_different_collectives(second: int) -> Snapshot:
    return starts(second, crossed=True)


def together(second: int) -> Snapshot:
    """All are in the same collective: another machine's ranks may be the late ones."""
    return starts(second, late=None)


def one_says_nothing(second: int) -> Snapshot:
    """Rank 2 moves, or says nothing."""
    return starts(second, known=(0, 1))


def waiting_launcher(second: int, *, began: int = -90, there: bool = True) -> Snapshot:
    """A torchrun of two nodes that has no rank."""
    launcher = WaitingLauncher(7, "train.py", 2, "gpu1:29500", "x", started_at=EPOCH + began)
    return replace(scene(second, gpus(())), waiting_launchers=(launcher,) if there else ())


def node_just_started(second: int) -> Snapshot:
    return waiting_launcher(second, began=-20)


def nodes_have_met(second: int) -> Snapshot:
    return waiting_launcher(second, there=False)


def by_command(second: int, *, here: tuple[int, ...] = (0,), meets_at: str = "127.0.0.1:23456") -> Snapshot:
    """Ranks of two that their command lines number: they wait, or have just met."""
    waits = {"state": "S", "cpu_percent": 0.5, "waits_for": "sleep", "read_bytes": 0, "written_bytes": 0, "devices": ()}
    ranks = []
    for number in here:
        base = replace(rank(number), run_id=None, rank=number, started_at=EPOCH - 5, autograd_threads=(), environment=None)
        says = StatedRank(number, 2, option="--rank", meets_at=meets_at)
        command = ("python", "main.py", "--rank", str(number), "--world-size", "2")
        base = replace(base, stated=says, command=command, launcher=None, ancestors=(), ppid=3000 + number, nvidia_open=False)
        met = {"state": "R", "cpu_percent": 90.0, "waits_for": None, "threads": (("pt_gloo_runloop", 2),)}
        ranks.append(replace(base, **(waits if len(here) < 2 or second < 12 else {**waits, **met})))  # type: ignore[arg-type]
    return scene(second, gpus([], 2), tuple(ranks))


def second_rank_comes(second: int) -> Snapshot:
    """Somebody starts the second rank in another terminal, twelve seconds later."""
    return by_command(second, here=(0,) if second < 12 else (0, 1))


def node_by_command(second: int, *, others: bool = False) -> Snapshot:
    """The two ranks that node 0 of two has spawned."""
    base = by_command(second, here=(0,))
    (first,) = base.processes
    node = StatedRank(node=0, nodes=2, option="--rank", meets_at="10.0.0.1:23456")
    command = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(7)")
    spawned = [
        replace(first, pid=4000 + n, ppid=3000, rank=None, stated=node, command=command, in_rendezvous=True) for n in range(2)
    ]
    if others and second >= 12:
        met = {"state": "R", "cpu_percent": 90.0, "waits_for": None, "threads": (("pt_gloo_runloop", 2),)}
        spawned = [replace(item, **met) for item in spawned]  # type: ignore[arg-type]
    return replace(base, processes=tuple(spawned))


def other_node_comes(second: int) -> Snapshot:
    return node_by_command(second, others=True)


PAIRS = (
    Pair("G03", "the second rank is started later", second_rank_comes, by_command, 70, at_most="possible"),
    Pair("G03", "the other node comes", other_node_comes, node_by_command, 70, at_most="possible"),
    Pair("G01", "one rank prepares data before the first step", prepares, starts, 60),
    Pair("G01", "one rank reads its data before the first step", reads, starts, 60),
    Pair("G01", "the ranks move before the first step", begins, starts, 60),
    Pair("G01", "all are in the same collective before the first step", together, in_different_collectives, 60),
    Pair("G01", "a rank of a start says nothing", one_says_nothing, starts, 60),
    Pair("G06", "a node that has only started", node_just_started, waiting_launcher, 30),
    Pair("G06", "nodes that have met", nodes_have_met, waiting_launcher, 30),
)
LOOK_ALIKES = look_alikes(PAIRS)
