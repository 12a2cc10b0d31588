"""Scenes as real jobs showed them: what the bundled faults look like on virtual GPUs, where a built scene was too tidy.

``FAULTS`` holds (rule, name, scene, seconds), ``HEALTHY`` (name, scene, seconds), as in the other rooms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gputop.snapshot import DeviceUse, LaunchEnvironment, LogMatch, Points, Snapshot, Workers
from tests.doctor.scenes.base import Scene, virtual, virtual_rank, virtual_run
from tests.doctor.scenes.dp import evaluation_inside
from tests.doctor.scenes.pace import by_turns, timed, turn
from tests.doctor.tracked import CALM, ddp, merged
from tests.samples import EPOCH, GIB

ALONE = LaunchEnvironment(virtual_devices="0,1", gputop_job_id="job-1", gputop_run_id="run-1")
ENGINE = {
    "device_ids": ["0"], "replicas": 1, "batch_rows": 128, "rows_per_device": [128],
    "calls": 40, "underused_calls": 0, "uneven_calls": 0, "module": "LeNet",
}  # fmt: skip


def hides_in_the_script(second: int) -> Snapshot:
    """Started on two virtual GPUs; the script leaves itself one, and its DataParallel takes what is there."""
    facts = {"data_parallel": ENGINE, "environment": {"virtual_devices_now": "0"}}
    process = replace(virtual_rank(0, 0, 1), environment=ALONE, launcher=None)
    return virtual(second, {0: 90.0}, (process,), (virtual_run(second, [0], facts),), count=2)


def chosen_mask(second: int) -> Snapshot:
    """The same, started on one virtual GPU by the person."""
    facts = {"environment": {"virtual_devices_now": "0"}}
    process = replace(virtual_rank(0, 0, 1), environment=replace(ALONE, virtual_devices="0"), launcher=None)
    return virtual(second, {0: 90.0}, (process,), (virtual_run(second, [0], facts),), count=2)


def twins(second: int) -> Snapshot:
    """A loop started the script twice, with the run id of one launch: both are rank 0 of the same run."""
    facts = {"process_group": {"backend": "gloo", "world_size": 1, "rank": 0, "groups": 1, "mesh": [], "collectives": {}}}
    first = replace(virtual_rank(0, 0, 1), environment=ALONE, launcher=None, ppid=3990, started_at=EPOCH - 30)
    second_one = replace(first, pid=first.pid + 1, rank=None, devices=(DeviceUse("virtual-0", GIB // 2, 50.0, ""),))
    return virtual(second, {0: 95.0}, (first, second_one), (virtual_run(second, [0], facts),), count=2)


def with_workers(second: int) -> Snapshot:
    """A run of one process with DataLoader workers: the same command, and children of it."""
    first = replace(virtual_rank(0, 0, 1), environment=ALONE, launcher=None, ppid=3990, started_at=EPOCH - 30)
    workers = tuple(replace(first, pid=5000 + n, ppid=first.pid, rank=None, devices=()) for n in range(4))
    both = {"virtual_devices_now": "0,1"}
    return virtual(second, {0: 95.0, 1: 90.0}, (first, *workers), (virtual_run(second, [0], {"environment": both}),), count=2)


def counted_from_1(second: int) -> Snapshot:
    """A barrier on rank 0 only; the script numbers its steps from 1, and the tracking counted from 0."""
    stacks = {
        0: (
            "other",
            ["distributed_c10d.py:5356 barrier", "c10d_logger.py:83 wrapper", "train.py:32 test", "train.py:75 train"],
        ),
        1: ("backward", ["graph.py:979 _engine_run_backward", "_tensor.py:623 backward", "train.py:142 train_step"]),
    }

    def each(number: int, step: int) -> dict[str, object]:
        phase, stack = stacks[number]
        return {"stalled": {"since": EPOCH, "at": EPOCH + 33, "step": step - 1, "phase": phase, "stack": stack}}

    return ddp(second, 2, each=each, frozen=True)


def went_on(second: int) -> Snapshot:
    """What a rank once said of a stall, and the steps that came since."""

    def each(number: int, step: int) -> dict[str, object]:
        frames = [f"distributed_c10d.py:1 {'barrier' if number else 'all_reduce'}", f"train.py:{32 + number} test"]
        return {"stalled": {"since": EPOCH - 40, "at": EPOCH - 7, "step": step - 9, "phase": "other", "stack": frames}}

    return ddp(second, 2, each=each)


def tests_after_quick_steps(second: int) -> Snapshot:
    """DataParallel whose evaluation goes around the wrapper, a third of each second; 50 steps of 13 ms in the rest."""
    shot = evaluation_inside(second)
    steps = tuple(range(50 * second, 50 * second + 50))
    times = tuple(EPOCH + second + 0.013 * place for place in range(50))
    train = Points("run-1", 0, "step_s", steps, times, (0.013,) * 50)
    pause = Points("run-1", 0, "phase/evaluation", steps[-1:], times[-1:], (0.35,))
    return replace(shot, points=(train, pause))


def tests_longer_than_it_trains(second: int) -> Snapshot:
    """The same, for most of the time: the stalls alone would be likely enough to be told."""
    shot = tests_after_quick_steps(second)
    train, pause = shot.points
    return replace(shot, points=(train, replace(pause, values=(0.65,))))


def tests_in_two_rhythms(second: int) -> Snapshot:
    """A test every 20 steps, and one at the end of each epoch of 156."""

    def pause(rank: int, step: int) -> float | None:
        return 2.5 if step % 20 == 0 or step % 156 == 0 else None

    return ddp(second, 2, metrics={**CALM, "phase/evaluation": pause})


def on_cores(shot: Snapshot) -> Snapshot:
    """The same run on virtual GPUs: its devices are this machine's cores."""
    return replace(shot, devices=tuple(replace(device, kind="virtual") for device in shot.devices))


def disturbed_cores(second: int) -> Snapshot:
    """Ranks with equal batches on cores that somebody else uses too: another forward is slow at each step."""
    return on_cores(by_turns(second))


def called_with(shot: Snapshot, rows: Callable[[int, int], int], apart: int = 0) -> Snapshot:
    """The same run, whose ranks say how many rows DDP was called with in the last steps; the loader's batches are equal.

    ``apart``: how many steps earlier each rank was asked than the one before it.
    """
    (run,) = shot.runs
    ranks = []
    for rank in run.ranks:
        newest = max((rank.step or 0) - apart * rank.rank, 31)
        sizes = [[step, rows(rank.rank, step), 784 * rows(rank.rank, step)] for step in range(newest - 31, newest + 1)]
        ranks.append(replace(rank, facts=merged(rank.facts, {"batches": {"called": sizes}})))
    return replace(shot, runs=(replace(run, ranks=tuple(ranks)),))


def cut_after_the_loader(second: int) -> Snapshot:
    """Loaders hand out equal batches, and the script takes a part of each: the rank with most rows is another each time."""
    return called_with(disturbed_cores(second), lambda rank, step: 64 if rank == turn(step) else 20)


def chance(rank: int, step: int) -> int:
    """Between a quarter and all of 64 rows."""
    return 16 + (step * 29 + rank * 17 + step * rank * 11) % 49


def of_chance(second: int, forward_s: Callable[[int, int], float], whole_s: float = 0.040) -> Snapshot:
    """Cut batches whose backward is as long on all ranks: the longer work of the one, and the other's wait for it."""
    same = timed(lambda r, s: 0.001, forward_s, lambda r, s: 0.024, whole=lambda r, s: whole_s)
    return called_with(on_cores(ddp(second, 2, metrics=same)), chance)


def cut_unseen_in_backward(second: int) -> Snapshot:
    """Forward is short, and takes as long as the rows say."""
    return of_chance(second, lambda rank, step: 0.0001 * chance(rank, step) + 0.0004 * (step % 3))


def cut_without_a_price(second: int) -> Snapshot:
    """Unequal rows, and a forward that does not care: what takes the time is the same for all."""
    return of_chance(second, lambda rank, step: 0.006 + 0.0002 * ((step * 13 + rank * 7) % 10))


def cut_beside_the_point(second: int) -> Snapshot:
    """Unequal rows that forward follows, in a step that is four fifths something else."""
    return of_chance(second, lambda rank, step: 0.0001 * chance(rank, step), whole_s=0.150)


def equal_calls_on_disturbed_cores(second: int) -> Snapshot:
    """Equal rows by every measure, where the last batch of an epoch has just shown the ranks unequal ones."""
    shot = called_with(disturbed_cores(second), lambda rank, step: 64)
    (run,) = shot.runs
    ranks = tuple(
        replace(rank, facts=merged(rank.facts, {"batches": {"rows": 60 + rank.rank, "elements": 60 + rank.rank}}))
        for rank in run.ranks
    )
    return replace(shot, runs=(replace(run, ranks=ranks),))


def without_a_loader(shot: Snapshot) -> Snapshot:
    """The same run, whose script makes its own batches."""
    (run,) = shot.runs
    ranks = []
    for rank in run.ranks:
        sizes = {**rank.facts["batches"], "rows": None, "elements": None}
        ranks.append(replace(rank, facts=merged(rank.facts, {"batches": sizes})))
    return replace(shot, runs=(replace(run, ranks=tuple(ranks)),))


def sizes_of_other_steps(second: int) -> Snapshot:
    """Equal calls on disturbed cores, which the ranks report of different steps, as when each stage begins anew."""
    return without_a_loader(called_with(disturbed_cores(second), lambda rank, step: 64, apart=40))


def sizes_unknown(second: int) -> Snapshot:
    """Another forward is slow at each step on cores that somebody else uses too, and nobody knows the batches."""
    return without_a_loader(disturbed_cores(second))


def larger_on_one_rank(second: int) -> Snapshot:
    """One rank always gets more, and the ranks report the sizes of different steps."""
    late = timed(
        lambda r, s: 0.0002,
        lambda r, s: 0.040 if r == 0 else 0.010,
        lambda r, s: 0.015 if r == 0 else 0.045,
    )
    shot = called_with(on_cores(ddp(second, 2, metrics=late)), lambda rank, step: 40 if rank == 0 else 8, apart=40)
    return without_a_loader(shot)


def collates(second: int) -> Snapshot:
    """A small step on the CPU: to put a batch together takes a fifth of it."""
    short = timed(lambda r, s: 0.004, lambda r, s: 0.006, lambda r, s: 0.009, whole=lambda r, s: 0.020)
    quick = {"ddp": {"forward_s": 0.006, "backward_s": 0.009, "communication_s": 0.002, "overlap_s": 0.0015}}
    return on_cores(ddp(second, 2, each=lambda number, step: quick, metrics=short))


def shows_an_error(second: int) -> Snapshot:
    """A script without a journal prints an error that it caught, as a lesson, and goes on."""
    line = "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False"
    told = LogMatch("cuda_deser_unavailable", "A12", line, "job-1", "job-1", None, "out.log", 3)
    process = replace(
        virtual_rank(0, 0, 1), environment=replace(ALONE, gputop_run_id=None), launcher=None, run_id=None, rank=None
    )
    return replace(virtual(second, {0: 90.0}, (process,), (), count=2), logs=(told,))


def workers_let_go(second: int) -> Snapshot:
    """A rank on a core of its own, its two workers on all eight, on a machine under pressure."""
    shot = virtual_ddp_with(Workers(2, cpu_percent=60.0, cores_allowed=8), second)
    return replace(shot, host=replace(shot.host, cpu_pressure_percent=60.0))


def virtual_ddp_with(workers: Workers, second: int) -> Snapshot:
    processes = tuple(replace(virtual_rank(n, n), cores_allowed=1, workers=workers) for n in range(2))
    return virtual(second, {0: 90.0, 1: 90.0}, processes, (virtual_run(second, [0, 1]),))


FAULTS: tuple[tuple[str, str, Scene, int], ...] = (
    ("A03", "the script hides virtual GPUs", hides_in_the_script, 12),
    ("A18", "two processes that are rank 0 of one run", twins, 20),
    ("C08", "a barrier on rank 0, steps numbered from 1", counted_from_1, 12),
    ("B13", "a test around the wrapper after quick steps", tests_after_quick_steps, 40),
    ("F03", "batches that are cut after the loader", cut_after_the_loader, 60),
    ("F03", "batches that are cut, unseen in backward", cut_unseen_in_backward, 60),
    ("F03", "one rank's batches are larger, by the sizes of different steps", larger_on_one_rank, 60),
    ("B13", "a test around the wrapper for most of the time", tests_longer_than_it_trains, 20),
    ("E07", "tests in two rhythms", tests_in_two_rhythms, 100),
)
HEALTHY: tuple[tuple[str, Scene, int], ...] = (
    ("one virtual GPU on purpose", chosen_mask, 60),
    ("workers of one process", with_workers, 60),
    ("a stall that is over", went_on, 60),
    ("equal batches on disturbed cores", disturbed_cores, 60),
    ("equal calls on disturbed cores", equal_calls_on_disturbed_cores, 60),
    ("equal calls of different steps on disturbed cores", sizes_of_other_steps, 60),
    ("batches of unknown size on disturbed cores", sizes_unknown, 60),
    ("cut batches that cost nothing", cut_without_a_price, 60),
    ("cut batches in a step of something else", cut_beside_the_point, 60),
    ("a small step on the CPU", collates, 60),
    ("workers that are not bound as their rank is", workers_let_go, 30),
    ("an error that a script shows", shows_an_error, 30),
)
