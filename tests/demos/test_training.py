"""The recipes train: real processes on virtual GPUs; what they did is read from their journals and from what they print.

Most run as forks of a process that has torch loaded already; those of DDP and its first fault as jobs with a real torchrun.
"""

from __future__ import annotations

import re
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gputop.jobs import identity, spawn, store
from gputop.recipes.catalogue import find, prepare
from gputop.snapshot import Device, Points, Run
from gputop.tracking.reader.runs import RunReader
from tests import REPOSITORY
from tests.demos.runs import Ran, run_demo
from tests.jobs.printed import printed_lines
from tests.packages import imports
from tests.patience import DEADLINE_S

sys.path.insert(0, str(REPOSITORY / "demos"))  # the demos are scripts that find each other there

if TYPE_CHECKING:
    import torch

    import digits
import_demos = imports("torch", "digits")

EASY = {"digits": "easy", "train_samples": 3200, "lr": 0.02, "batch_size": 32, "steps": 300}
"""LeNet on one core knows more than 9 of 10 easy digits after these, in 3 seconds."""
FEW = {"digits": "easy", "train_samples": 400, "lr": 0.02, "batch_size": 16, "steps": 12}


@pytest.fixture
def nothing_left() -> Iterator[None]:
    yield
    for job in store.list_jobs():
        identity.signal_marked(job.id, signal.SIGKILL)
    for process in spawn.started:
        process.wait(DEADLINE_S)


def job(recipe: str, count: int, extra: tuple[str, ...] = (), **values: object) -> tuple[Run, list[Points]]:
    """Run a recipe to its end as a job and return the run and its points."""
    devices = [Device(index, f"virtual-{index}", kind="virtual") for index in range(count)]
    launch = prepare(find(recipe), devices, values)
    started = store.start(type(launch)((*launch.argv, *extra), launch.env, launch.cwd, launch.name, launch.recipe_id))
    deadline = time.monotonic() + 100
    while store.find(started.id).active:
        assert time.monotonic() < deadline, printed_lines(started.id)
        time.sleep(0.1)
    assert store.find(started.id).state == "finished", "\n".join(printed_lines(started.id))
    update = RunReader().poll()
    (run,) = update.runs
    assert run.run_id == started.id  # the run joins its job
    return run, list(update.points)


def claims(run: Run | None) -> list[list[int]]:
    assert run is not None
    return [[claim["virtual_index"] for claim in rank.facts["devices"]] for rank in run.ranks]


def ended_well(ran: Ran, ranks: int = 1) -> Ran:
    assert ran.codes == [0] * ranks, ran.text
    assert ran.run is not None
    assert [rank.state for rank in ran.run.ranks] == ["finished"] * ranks
    return ran


def knows_the_digits(ran: Ran, ranks: int = 1) -> None:
    ended_well(ran, ranks)
    for rank in range(ranks):
        ran.learned(0.4, rank)
    assert ran.series("accuracy")[-1] > 0.9, ran.text


def test_ddp_as_a_job_learns_on_two_ranks_each_on_its_own_gpu_and_saves_once(nothing_left: None, tmp_path: Path) -> None:
    saved = tmp_path / "model.pt"
    run, points = job("ddp", 2, ("--save", str(saved)), **{**EASY, "batch_size": 16})
    found = Ran([0, 0], [], run, points)
    assert run.world_size == 2
    assert claims(run) == [[0], [1]]
    assert [rank.state for rank in run.ranks] == ["finished", "finished"]
    assert [rank.local_rank for rank in run.ranks] == [0, 1]
    assert all(rank.step == 300 for rank in run.ranks)
    assert found.series("loss", 0) != found.series("loss", 1)  # each rank has its own part of the data
    assert found.series("accuracy", 0) == found.series("accuracy", 1)  # and all ranks count together
    assert found.series("accuracy")[-1] > 0.9
    assert min(found.series("samples_per_s")) > 0
    assert (run.config["batch_size"], run.config["scale_batch"]) == (16, "per-gpu")
    assert run.ranks[0].facts["progress"]["total_steps"] == 300
    weights = torch.load(saved, weights_only=True)
    assert not any(name.startswith("module.") for name in weights)


def test_single_learns_from_idx_files(tmp_path: Path) -> None:
    """Drawn digits, written as MNIST is: what --data reads is what is trained on."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    drawn = digits.drawn_digits(3700, seed=5, easy=True)
    for part, where in (("train", slice(0, 3200)), ("t10k", slice(3200, 3700))):
        images, labels = drawn.images[where].numpy().tobytes(), bytes(drawn.labels[where])
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, len(labels), 28, 28) + images)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, len(labels)) + labels)
    ran = run_demo("single", ranks=0, data=tmp_path, **EASY)
    knows_the_digits(ran)
    assert claims(ran.run) == [[0]]
    assert "data: MNIST, 3200 images" in ran.text


def test_data_parallel_learns_with_a_thread_for_each_gpu() -> None:
    ran = run_demo("data_parallel", ranks=0, **EASY)
    knows_the_digits(ran)
    assert ran.run is not None
    threads = ran.fact("devices")
    assert [claim["virtual_index"] for claim in threads] == [0, 1]
    assert len({claim["thread_id"] for claim in threads} | {ran.run.ranks[0].pid}) == 3
    assert all(claim["memory_bytes"] > 61_706 * 8 for claim in threads)
    split = ran.fact("data_parallel")
    assert (split["rows_per_device"], split["underused_calls"]) == ([16, 16], 0)


def test_foonet_prints_what_each_replica_gets() -> None:
    ran = ended_well(run_demo("data_parallel", "--amp", ranks=0, model="foonet", **FEW))
    assert sorted(re.findall(r"FooNet gets a batch of (\d+) on (\S+)", ran.text)[:2]) == [
        ("8", "virtual-gpu-0"),
        ("8", "virtual-gpu-1"),
    ]


def test_from_scratch_learns_with_identical_copies() -> None:
    ran = run_demo("from_scratch", ranks=0, **EASY)
    knows_the_digits(ran)
    assert claims(ran.run) == [[0, 1]]
    named = ended_well(run_demo("from_scratch", "--devices", "cpu,cpu,cpu", ranks=0, **FEW))
    assert "training on virtual GPU 0 (one core of the CPU), virtual GPU 1 (one core of the CPU), cpu" in named.text
    assert run_demo("from_scratch", ranks=0, **{**FEW, "batch_size": 1}).codes == [1]


def test_model_parallel_learns_and_micro_batches_let_both_devices_work() -> None:
    ran = run_demo("model_parallel", "--micro-batches", "4", ranks=0, **EASY)
    knows_the_digits(ran)
    assert claims(ran.run) == [[0, 1]]
    naive = ended_well(run_demo("model_parallel", ranks=0, **FEW))
    first, second = map(int, re.findall(r"worked (\d+) % and (\d+) %", naive.text)[0])
    assert first + second <= 101  # one of the two always waits
    refused = run_demo("model_parallel", ranks=0, model="foonet", **FEW)
    assert refused.codes == [1]
    assert "FooNet cannot be split" in refused.text


def test_fsdp_learns_and_ends_with_the_weights_of_ddp_each_rank_holding_half(tmp_path: Path) -> None:
    saved, options = tmp_path / "model.pt", {**EASY, "batch_size": 16, "steps": 140}
    sharded = ended_well(run_demo("fsdp", "--save", saved, **options), 2)
    plain = ended_well(run_demo("ddp", **options), 2)
    sharded.learned(0.8)
    assert len(set(sharded.weights() + plain.weights())) == 1
    assert sharded.series("accuracy") == plain.series("accuracy")
    assert sharded.series("accuracy")[-1] > 0.7
    assert sharded.text.count("holds 30853 of 61706 parameters") == 2
    assert {name: tensor.shape for name, tensor in torch.load(saved, weights_only=True).items()}["0.weight"] == (6, 1, 5, 5)


def test_fsdp_accumulates_as_ddp_does() -> None:
    ran = [ended_well(run_demo(script, accumulate=2, **FEW), 2) for script in ("fsdp", "ddp")]
    assert len(set(ran[0].weights() + ran[1].weights())) == 1


def test_ddp_with_every_option() -> None:
    ran = ended_well(run_demo("ddp", "--amp", "--sync-bn", accumulate=2, scale_lr="linear", **FEW), 2)
    assert len(set(ran.weights())) == 1
    gradients = ran.fact("gradients")
    assert (gradients["accumulation"], gradients["synced_backwards"]) == (2, gradients["steps"])  # no_sync() spared the others
    assert ran.series("lr")[-1] == pytest.approx(0.02 * 4)  # 2 batches on 2 ranks in a step
    assert ran.series("lr", 1) == ran.series("lr", 0)


def test_a_global_batch_is_shared_by_the_ranks() -> None:
    ran = ended_well(run_demo("ddp", scale_batch="global", scale_lr="sqrt", **FEW), 2)
    assert ran.fact("loader")["batch_size"] == 8
    assert ran.series("lr")[-1] == pytest.approx(0.02)


def test_inference_from_a_checkpoint_with_a_temperature(tmp_path: Path) -> None:
    saved = tmp_path / "model.pt"
    trained = run_demo("inference", ranks=0, save=saved, steps=300)
    knows_the_digits(trained)
    ran = ended_well(run_demo("inference", ranks=0, checkpoint=saved, temperature=3))
    assert ran.series("accuracy") == trained.series("accuracy")
    assert re.search(r"temperature 3 .*<- --temperature", ran.text)
    bits, sure = ran.series("entropy_bits"), ran.series("confidence")  # at 0.5, 1, 2, 3 and 4
    assert bits == sorted(bits)
    assert sure == sorted(sure, reverse=True)
    wrong = run_demo("inference", ranks=0, checkpoint=tmp_path / "none.pt")
    assert wrong.codes == [1]
    assert "cannot be used" in wrong.text


def test_each_memory_tip_saves_memory() -> None:
    ran = ended_well(run_demo("memory_tips", ranks=0, mebibytes=32))
    rows = re.findall(r"(before|after) +([\d.]+) MiB +([\d.]+) MiB", ran.text)
    assert [way for way, _, _ in rows] == ["before", "after"] * 3
    peaks = [float(peak) for _, peak, _ in rows]
    for before, after in zip(peaks[::2], peaks[1::2], strict=True):
        assert after < 0.8 * before, ran.text
    assert float(rows[4][2]) > 16 > float(rows[5][2])  # graphs that are kept, and losses alone


def test_checkpoints_show_both_errors_and_load_every_way() -> None:
    text = ended_well(run_demo("checkpoint", ranks=0)).text
    assert "RuntimeError: Attempting to deserialize object on a CUDA device" in text
    assert text.count("names like 'module.0.weight'") == 2
    assert text.count('RuntimeError: Error(s) in loading state_dict for LeNet: Missing key(s) in state_dict: "0.weight"') == 2
    assert text.count("strict=False)   weights equal: False") == 2
    assert text.count("loaded, weights equal: True") == 5
    assert len(re.findall(r"(?:CPU|DataParallel|DDP) +ok +ok +ok", text)) == 3


SYNC_BN = """
import sys; sys.path.insert(0, {demos!r})
import torch, torch.distributed as dist, sync_bn
from torch import nn
dist.init_process_group("gloo")
torch.manual_seed(0)
whole, scale = torch.randn(7, 3, 4, 4), torch.randn(7, 3, 4, 4)
alone = nn.BatchNorm2d(3)
shared = sync_bn.convert(nn.Sequential(nn.BatchNorm2d(3)), torch.device("cpu"))
own = slice(0, 5) if dist.get_rank() == 0 else slice(5, 7)  # ranks need not have equally many samples
x, y = whole.clone().requires_grad_(), whole[own].clone().requires_grad_()
expected, found = alone(x), shared(y)
(expected * scale).sum().backward()
(found * scale[own]).sum().backward()
close = lambda a, b: torch.allclose(a, b, atol=1e-5)
dist.all_reduce(shared[0].weight.grad)
assert close(found, expected[own]) and close(y.grad, x.grad[own]) and close(shared[0].weight.grad, alone.weight.grad)
assert close(shared[0].running_mean, alone.running_mean) and close(shared[0].running_var, alone.running_var)
alone.eval(), shared.eval()
assert close(shared(whole), alone(whole)) and type(shared[0]).__name__ == "SyncBatchNorm"
shared.train()
with torch.autocast("cpu", torch.bfloat16):
    assert shared(whole[own].bfloat16()).dtype == torch.bfloat16
dist.destroy_process_group()
"""


def test_batch_norm_over_two_ranks_is_that_over_the_whole_batch(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SYNC_BN.format(demos=str(Path(digits.__file__).parent)))
    ran = run_demo(tmp_path / "script")
    assert ran.codes == [0, 0], ran.text
