"""Untracked runs of which only processes and printed losses are known: what main threads wait for, and who stands still."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gputop.snapshot import Ancestor, DeviceUse, Points, ProcessRank, ProcessRun, Rank, Run, Snapshot, Workers
from tests.doctor.scenes.base import Scene, single, virtual
from tests.samples import EPOCH, GIB

Doing = Callable[[int], str]
"""What a main thread does at a second: "runs", or what it waits for."""
LAUNCHER = Ancestor(3999, "torchrun")
METRICS: Mapping[str, float] = {"loss": 1.0}


def taking_turns(*words: str) -> Doing:
    """One after the other, again and again."""
    return lambda second: words[second % len(words)]


def always(word: str) -> Doing:
    return lambda second: word


def then(before: Doing, at: int, after: Doing) -> Doing:
    return lambda second: before(second) if second < at else after(second)


def outside(
    *doings: Doing,
    stops: int | None = None,
    every: int = 1,
    metrics: Mapping[str, float] = METRICS,
    printed: bool = True,
    percent: Callable[[int, int], float] | None = None,
) -> Scene:
    """A run on virtual GPUs, one rank for each of ``doings``; it prints a loss every ``every`` seconds, until ``stops``.

    ``percent``: the CPU use of a rank at a second; else 90 while its main thread runs, and 20 while it works in turns.
    """

    def scene(second: int) -> Snapshot:
        standing = stops is not None and second >= stops
        processes = []
        for number, doing in enumerate(doings):
            word = doing(second)
            used = percent(number, second) if percent else 1.0 if standing else 90.0 if word == "runs" else 20.0
            base = single(4000 + number, DeviceUse(f"virtual-{number}", GIB, used, "C"))
            assert base.environment is not None
            environment = replace(base.environment, rank=number, local_rank=number, world_size=len(doings))
            processes.append(
                replace(
                    base,
                    environment=environment if len(doings) > 1 else base.environment,
                    rank=number if len(doings) > 1 else None,
                    cpu_percent=used,
                    state="R" if word == "runs" else "S",
                    waits_for=None if word == "runs" else word,
                    nvidia_open=False,
                    torch_cuda_mapped=False,
                    autograd_threads=(),
                    threads=(("pt_gloo_runloop", 2),) if len(doings) > 1 else (),
                    read_bytes=10**9,
                    ancestors=(LAUNCHER, *base.ancestors) if len(doings) > 1 else base.ancestors,
                    launcher=LAUNCHER if len(doings) > 1 else None,
                    ppid=LAUNCHER.pid if len(doings) > 1 else 3000,
                )
            )
        done = (min(second, stops) if stops is not None else second) // every
        made = printed and second % every == 0 and not standing
        busy = {number: (processes[number].cpu_percent or 0.0) for number in range(len(doings))}
        shown = Rank(rank=0, pid=4000, state="running", step=done, last_log_at=EPOCH + done * every, metrics=metrics)
        runs = (Run("pid-4000-1", "train.py", state="running", ranks=(replace(shown, facts={"source": "log"}),)),)
        ranks = tuple(
            ProcessRank(process.pid, process.rank, process.rank, (f"virtual-{place}",))
            for place, process in enumerate(processes)
        )
        untracked = ProcessRun("pid:4000", "train.py", ranks, run_id="pid-4000-1" if printed else None)
        points = tuple(_points(metrics, done, second)) if made else ()
        found = virtual(second, busy, tuple(processes), runs if printed else ())
        return replace(found, process_runs=(untracked,), points=points)

    return scene


def _points(metrics: Mapping[str, float], step: int, second: int) -> Sequence[Points]:
    return [
        Points("pid-4000-1", 0, name, (step,), (EPOCH + second,), (value / (1 + step / 50),)) for name, value in metrics.items()
    ]


sleeps = outside(taking_turns("sleep", "sleep", "runs"))
reads_sockets = outside(taking_turns("socket", "runs", "socket"))
waits_for_workers = outside(taking_turns("events", "events", "runs"))
computes = outside(taking_turns("runs", "runs", "sleep"))
waits_for_threads = outside(taking_turns("lock", "lock", "runs"), percent=lambda number, second: 55.0)
waits_for_a_pool = outside(taking_turns("lock", "lock", "runs"), percent=lambda number, second: 30.0)
plays = outside(taking_turns("sleep", "sleep", "runs"), metrics={"loss": 1.0, "mean_reward": 3.0})
serves = outside(taking_turns("events", "events", "runs"))
sleeps_and_prints_nothing = outside(taking_turns("sleep", "sleep", "runs"), printed=False)

one_sleeps = outside(taking_turns("lock", "lock", "runs"), taking_turns("sleep", "sleep", "runs"))
both_sleep = outside(taking_turns("sleep", "lock", "runs"), taking_turns("lock", "sleep", "runs"))
pipeline = outside(taking_turns("lock", "runs"), taking_turns("runs", "lock"))
server_of_parameters = outside(always("lock"), always("runs"))

_WORK = taking_turns("runs", "runs", "lock")
hangs = outside(then(_WORK, 40, always("lock")), then(_WORK, 40, always("lock")), stops=40)
hangs_and_prints_nothing = outside(then(_WORK, 40, always("lock")), then(_WORK, 40, always("lock")), stops=40, printed=False)
pauses = outside(
    *(2 * [lambda second: "lock" if second % 40 >= 30 else _WORK(second)]),
    percent=lambda number, second: 1.0 if second % 40 >= 30 else 90.0,
)
one_left = outside(
    then(_WORK, 40, always("lock")),
    then(_WORK, 40, taking_turns("sleep", "runs")),
    stops=40,
    percent=lambda number, second: 90.0 if second < 40 else 1.0 if number == 0 else 15.0,
)
one_of_three_left = outside(
    *(2 * [then(_WORK, 40, always("lock"))]),
    then(_WORK, 40, taking_turns("sleep", "runs")),
    stops=40,
    percent=lambda number, second: 90.0 if second < 40 else 1.0 if number < 2 else 15.0,
)
logs_seldom = outside(
    then(_WORK, 40, always("lock")),
    then(_WORK, 40, taking_turns("sleep", "runs")),
    every=30,
    percent=lambda number, second: 90.0 if second < 40 else 1.0 if number == 0 else 15.0,
)

one_computes = outside(always("runs"), taking_turns("lock", "runs"))
idle_rank = outside(always("runs"), always("lock"), percent=lambda number, second: 1.0 if number else 95.0)
prepares_data = outside(always("runs"), always("lock"), printed=False, percent=lambda number, second: 1.0 if number else 95.0)
"""Rank 0 prepares the data set, and the others wait for it in a barrier; no step has ended yet."""
prepares_data_and_prints = outside(
    always("runs"), always("lock"), stops=0, percent=lambda number, second: 1.0 if number else 95.0
)


def _leaves(doing: Doing, percent: float, workers: Workers | None = None, writes: int = 0) -> Scene:
    """Rank 0 leaves the loop at second 40 and does something else; rank 1 waits for it."""
    base = outside(
        then(_WORK, 40, doing),
        then(_WORK, 40, always("lock")),
        stops=40,
        percent=lambda number, second: 90.0 if second < 40 else 1.0 if number else percent,
    )

    def scene(second: int) -> Snapshot:
        found = base(second)
        if second < 40:
            return found
        first, *others = found.processes
        first = replace(first, workers=workers, written_bytes=writes * second if writes else first.written_bytes)
        return replace(found, processes=(first, *others))

    return scene


BUSY_FOR_ALL: Mapping[str, Scene] = {
    "evaluates": _leaves(always("runs"), 95.0),
    "evaluates on a crowded machine": _leaves(always("runs"), 12.0),
    "evaluates what workers load": _leaves(taking_turns("events", "events", "events", "runs"), 8.0, Workers(4, 190.0)),
    "saves": _leaves(taking_turns("file", "runs", "file"), 30.0, writes=40_000_000),
    "uploads": _leaves(taking_turns("socket", "socket", "runs"), 6.0),
    "waits for a program that it started": _leaves(always("child"), 0.0),
}
"""What rank 0 may do at the end of an epoch, while the others wait in a barrier."""
evaluates_with_pauses = _leaves(taking_turns(*(6 * ["runs"]), "sleep"), 80.0)
ASLEEP: Mapping[str, Scene] = {
    "sleeps": _leaves(always("sleep"), 0.0),
    "sleeps and looks again": _leaves(taking_turns("sleep", "sleep", "runs"), 5.0),
    "waits for a person": _leaves(always("terminal"), 0.0),
}
serves_weights = outside(always("runs"), always("lock"), percent=lambda number, second: 5.0 if number else 95.0)
waits_for_files = outside(
    *(2 * [lambda second: "runs" if second % 5 == 0 else "sleep"]), printed=False, percent=lambda number, second: 4.0
)
"""Young ranks that exchange files: they are connected to nothing, and use little of a core."""


def seen_at(*looks: Callable[[int], Doing]) -> Scene:
    """Return a run of this many ranks, each of which is seen in turn at what its ``looks`` return for the second."""
    base = outside(*[always("runs")] * len(looks))

    def scene(second: int) -> Snapshot:
        shot = base(second)
        seen = zip(shot.processes, looks, strict=True)
        return replace(shot, processes=tuple(replace(process, doing=look(second)) for process, look in seen))

    return scene


def locked(scene: Scene, since: int) -> Scene:
    """The same; from a second on, all threads of its processes wait for each other."""

    def with_threads(second: int) -> Snapshot:
        shot = scene(second)
        return replace(
            shot, processes=tuple(replace(item, all_locked=second >= since, thread_count=3) for item in shot.processes)
        )

    return with_threads


one_stops = outside(then(always("runs"), 40, always("lock")), stops=40)
pauses_for_a_thread = outside(taking_turns(*["runs"] * 12, *["lock"] * 12))


def stops_and(doing: Doing) -> Scene:
    """One process that trains for 40 s, and then does nothing but wait."""
    return outside(then(always("runs"), 40, doing), stops=40)


def threaded(threads: int, setting: str = "1", main: float = 18.0, machine: float = 99.0, used: float = 95.0) -> Scene:
    """Two ranks on two cores, with this many threads each; their main threads and the machine use so much."""
    base = outside(taking_turns("runs", "lock"), taking_turns("lock", "runs"), percent=lambda number, second: used)

    def scene(second: int) -> Snapshot:
        found = base(second)
        processes = []
        for process in found.processes:
            assert process.environment is not None
            environment = replace(process.environment, settings=(("OMP_NUM_THREADS", setting),))
            many = replace(process, thread_count=threads, main_thread_cpu_percent=main, cores_allowed=2)
            processes.append(replace(many, environment=environment))
        host = replace(found.host, cpu_count=2, cpu_percent=machine)
        return replace(found, processes=tuple(processes), host=host)

    return scene


threads_of_a_server = threaded(40, "32")
threads_set_in_the_script = threaded(51)
threads_that_do_not_exist = threaded(6, "32")
threads_beside_others = threaded(40, "32", main=6.0, used=20.0)
FEW_THREADS: Mapping[str, Scene] = {
    "threads that sleep": threaded(80, main=90.0),
    "a default that each rank uses": threaded(9, "2", main=45.0),
    "cores that are free": threaded(40, "32", machine=60.0, used=50.0),
}


def writing(
    doing: Doing,
    written: int = 4_000_000,
    read: int = 0,
    every: int = 1,
    stops: int | None = None,
    files: tuple[str, ...] = ("/scratch/run/last.ckpt",),
) -> Scene:
    """One process that writes and reads this many bytes a second; ``files`` are open to be written."""
    base = outside(doing, every=every, stops=stops)

    def scene(second: int) -> Snapshot:
        found = base(second)
        (process,) = found.processes
        moved = replace(process, written_bytes=written * second, read_bytes=read * second, files_written=files)
        return replace(found, processes=(moved,))

    return scene


flushes_each_step = writing(taking_turns("file", "runs"))
flushes_files_that_are_closed_again = writing(taking_turns("file", "runs"), files=())
flushes_often = writing(taking_turns("file", "runs", "runs"))
UNTROUBLED_BY_FILES: Mapping[str, Scene] = {
    "reads its data": writing(taking_turns("file", "runs"), written=100, read=4_000_000),
    "copies what it reads": writing(taking_turns("file", "runs"), read=4_000_000),
    "writes a log": writing(taking_turns("file", "runs"), written=2_000),
    "one long checkpoint": writing(lambda second: "file" if 30 < second < 60 else "runs", written=40_000_000, every=30),
    "a checkpoint now and then": writing(lambda second: "file" if second % 60 < 14 else "runs"),
    "writes while other threads compute": writing(taking_turns("file", *(6 * ["runs"]))),
}
"""Processes that wait for files, or write, and whose loop is not held up by it."""


def with_transfers(
    doing: Doing, read: int = 0, written: int = 0, disk: int = 0, every: int = 1, main: float = 95.0, **changes: Any
) -> Scene:
    """One process whose calls read, and which writes and reads from disks, this many bytes a second.

    ``main``: how much of a core its main thread uses, in percent.
    """
    base = outside(doing, every=every)

    def scene(second: int) -> Snapshot:
        found = base(second)
        (process,) = found.processes
        moved: dict[str, Any] = {
            "any_read_bytes": read * second,
            "written_bytes": written * second,
            "read_bytes": disk * second,
        }
        moved |= {"main_thread_cpu_percent": main, **changes}
        return replace(found, processes=(replace(process, **moved),))

    return scene


reads_the_whole_file = with_transfers(always("runs"), 300_000_000)
reads_it_on_a_crowded_machine = with_transfers(always("runs"), 40_000_000, main=20.0)
READS_LITTLE: Mapping[str, Scene] = {
    "small files": with_transfers(always("runs"), 5_000_000),
    "much, and computes far more": with_transfers(always("runs"), 60_000_000),
    "at its start": with_transfers(always("runs"), 300_000_000, any_read_bytes=9_000_000_000),
    "by workers": with_transfers(always("runs"), 300_000_000, workers=Workers(4, 190.0)),
    "before each evaluation": with_transfers(always("runs"), 300_000_000, every=40),
    "checkpoints that it copies": with_transfers(always("runs"), 300_000_000, written=250_000_000),
}
saves_beside_the_loop = with_transfers(always("runs"), written=40_000_000, files_written=("/scratch/run/last.ckpt",))


def _writes_now_and_then(second: int) -> Snapshot:
    found = outside(always("runs"))(second)
    (process,) = found.processes
    return replace(found, processes=(replace(process, written_bytes=2 * 10**9 * (second // 40)),))


WRITES_LITTLE: Mapping[str, Scene] = {
    "its best model": with_transfers(always("runs"), written=2_000_000),
    "what it reads": with_transfers(always("runs"), written=40_000_000, disk=40_000_000),
    "one large file before": with_transfers(always("runs"), written_bytes=10**10),
    "one large file now and then": _writes_now_and_then,
}


def in_rounds(trains_s: int, pauses_s: int, evaluated: str = "val_loss", every: int = 1) -> Scene:
    """One process that prints a loss every ``every`` seconds while it trains, then nothing, and then another value."""
    base = outside(always("runs"), metrics={"loss": 1.0, evaluated: 0.9})

    def scene(second: int) -> Snapshot:
        found = base(second)
        within = second % (trains_s + pauses_s)
        name = "loss" if within < trains_s and within % every == 0 else evaluated if within == trains_s + pauses_s - 1 else ""
        return replace(found, points=tuple(item for item in found.points if item.metric == name))

    return scene


evaluates_for_longer = in_rounds(5, 9)


def evaluates_after_quick_steps(second: int) -> Snapshot:
    """Forty steps, which pass within one reading and are read with the result before, and an evaluation of four seconds."""
    found = outside(always("runs"), metrics={"loss": 1.0, "val_loss": 0.9})(second)
    if second % 5:
        return replace(found, points=())
    loss, result = found.points
    steps, at = range(8 * second, 8 * second + 40), EPOCH + second
    many = replace(loss, steps=tuple(steps), times=(float(at),) * 40, values=(0.9,) * 40)
    return replace(found, points=(replace(result, steps=(8 * second - 1,)), many))


EVALUATES_LESS: Mapping[str, Scene] = {
    "for less time": in_rounds(10, 5),
    "and prints once a round": in_rounds(12, 3, every=12),
    "but prints a rate": in_rounds(5, 9, "lr"),
    "but prints the time of it": in_rounds(5, 9, "val_time"),
}
