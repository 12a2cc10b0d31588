"""The demos train: real torchrun, real ranks, started as jobs; what they did is read from their journals."""

from __future__ import annotations

import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demos"))

import digits
from gputop.launch import identity, jobs
from gputop.launch.recipes import find, prepare
from gputop.snapshot import Device, Points, Run
from gputop.tracking.reader import RunReader

QUICK = {"train_samples": 4000, "lr": 0.05, "batch_size": 32, "steps": 240}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    for job in jobs.list_jobs():
        identity.signal_marked(job.id, signal.SIGKILL)
    for process in jobs._supervisors:
        process.wait(40)


def trained(recipe: str, count: int, extra: tuple[str, ...] = (), **values: object) -> tuple[Run, list[Points]]:
    """Run a recipe to its end as a job and return the run and its points."""
    devices = [Device(index, f"virtual-{index}", kind="virtual") for index in range(count)]
    launch = prepare(find(recipe), devices, {**QUICK, **values})
    job = jobs.start(type(launch)((*launch.argv, *extra), launch.env, launch.cwd, launch.name, launch.recipe_id))
    deadline = time.monotonic() + 100
    while jobs.find(job.id).active:
        assert time.monotonic() < deadline, jobs.tail(job.id).lines
        time.sleep(0.1)
    assert jobs.find(job.id).state == "finished", "\n".join(jobs.tail(job.id).lines)
    update = RunReader().poll()
    (run,) = update.runs
    assert run.run_id == job.id  # the run joins its job
    return run, list(update.points)


def series(points: list[Points], metric: str, rank: int) -> list[float]:
    return [value for part in points if (part.metric, part.rank) == (metric, rank) for value in part.values]


def assert_learns(points: list[Points], rank: int = 0) -> None:
    loss = series(points, "loss", rank)
    assert 2.1 < sum(loss[:10]) / 10 < 2.6  # ln 10 = 2.3: ten classes, nothing known yet
    assert sum(loss[-10:]) < 0.75 * sum(loss[:10])


def claims(run: Run) -> list[list[int]]:
    return [[claim["virtual_index"] for claim in rank.facts["devices"]] for rank in run.ranks]


def test_ddp_learns_on_two_ranks_each_on_its_own_gpu_and_saves_once(tmp_path: Path) -> None:
    import torch

    saved = tmp_path / "model.pt"
    run, points = trained("ddp", 2, extra=("--save", str(saved)))
    assert run.world_size == 2
    assert claims(run) == [[0], [1]]
    assert [rank.state for rank in run.ranks] == ["finished", "finished"]
    assert all(rank.step == 240 for rank in run.ranks)
    assert_learns(points, 0)
    assert_learns(points, 1)
    assert series(points, "loss", 0) != series(points, "loss", 1)  # each rank has its own part of the data
    assert series(points, "accuracy", 0) == series(points, "accuracy", 1)  # and all ranks count together
    assert series(points, "accuracy", 0)[-1] > 0.2  # chance is 0.1
    assert min(series(points, "samples_per_s", 0)) > 0
    assert run.config["batch_size"] == 32
    assert run.ranks[0].facts["progress"]["total_steps"] == 240
    weights = torch.load(saved, weights_only=True)
    assert not any(name.startswith("module.") for name in weights)


def test_ranks_on_one_gpu_all_claim_virtual_gpu_0() -> None:
    run, _ = trained("faults/ranks-on-one-gpu", 2, steps=20)
    assert claims(run) == [[0], [0]]
    assert [rank.local_rank for rank in run.ranks] == [0, 1]


def test_single_learns_from_idx_files(tmp_path: Path) -> None:
    """Drawn digits, written as MNIST is: what --data reads is what is trained on."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    drawn = digits.drawn_digits(4000, seed=5)
    for part, count in (("train", 4000), ("t10k", 500)):
        images, labels = drawn.images[:count].numpy().tobytes(), bytes(drawn.labels[:count])
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + images)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels)
    run, points = trained("single", 1, data=str(tmp_path))
    assert run.config["data"] == str(tmp_path)
    assert claims(run) == [[0]]
    assert_learns(points)


def test_data_parallel_learns_with_a_thread_for_each_gpu() -> None:
    run, points = trained("data-parallel", 2)
    assert_learns(points)
    threads = run.ranks[0].facts["devices"]
    assert [claim["virtual_index"] for claim in threads] == [0, 1]
    assert len({claim["thread_id"] for claim in threads} | {run.ranks[0].pid}) == 3
    assert all(claim["memory_bytes"] > 61_706 * 8 for claim in threads)
    split = run.ranks[0].facts["data_parallel"]
    assert (split["rows_per_device"], split["underused_calls"]) == ([16, 16], 0)


def test_a_small_batch_leaves_a_gpu_without_work() -> None:
    run, _ = trained("faults/dp-small-batch", 2, steps=40, batch_size=1, lr=0.001)
    split = run.ranks[0].facts["data_parallel"]
    assert split["rows_per_device"] == [1, 0]
    assert split["underused_calls"] == split["calls"] == 40
    assert [claim["memory_bytes"] > 0 for claim in run.ranks[0].facts["devices"]] == [True, False]
