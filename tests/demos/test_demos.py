"""The demos' parts: data, models, devices, and the engine that stands in for nn.DataParallel without CUDA."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import REPOSITORY
from tests.nursery import nursery
from tests.packages import imports

DEMOS = REPOSITORY / "demos"
sys.path.insert(0, str(DEMOS))  # the demos are scripts that find each other in their own folder

if TYPE_CHECKING:
    import torch

    import cpu_data_parallel
    import devices
    import digits
    import from_scratch
    import idx
    import model_parallel
    import models
    import options
import_demos = imports(
    "torch", "cpu_data_parallel", "devices", "digits", "from_scratch", "idx", "model_parallel", "models", "options"
)


def test_drawn_digits_are_the_same_for_a_seed_and_labelled_synthetic() -> None:
    first, again, other = digits.drawn_digits(200, 1), digits.drawn_digits(200, 1), digits.drawn_digits(200, 2)
    assert torch.equal(first.images, again.images)
    assert first.labels == again.labels
    assert not torch.equal(first.images, other.images)
    assert "synthetic" in first.name
    assert set(first.labels) == set(range(10))
    image, label = first[0]
    assert (image.shape, image.dtype, label) == ((1, 28, 28), torch.float32, first.labels[0])
    assert abs(float(torch.stack([first[i][0] for i in range(200)]).mean())) < 0.5


def idx_file(path: Path, magic: int, shape: tuple[int, ...], data: bytes) -> Path:
    raw = struct.pack(f">I{len(shape)}I", magic, *shape) + data
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_idx_files_are_read_in_their_shape(tmp_path_factory: pytest.TempPathFactory, shape, zipped, random) -> None:  # type: ignore[no-untyped-def]
    count = int(torch.tensor(shape).prod())
    data = random.randbytes(count)
    path = tmp_path_factory.mktemp("idx") / ("file.gz" if zipped else "file")
    found = idx.read_idx(idx_file(path, 0x0800 + len(shape), tuple(shape), data))
    assert tuple(found.shape) == tuple(shape)
    assert bytes(found.flatten().tolist()) == data


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "does not start"),
        (b"\x89PNG", "does not start"),
        (b"\0\0\x0d\x01" + struct.pack(">I", 1) + b"1234", "type 13"),
        (b"\0\0\x08\x03" + struct.pack(">I", 1), "ends within its header"),
        (b"\0\0\x08\x01" + struct.pack(">I", 5) + b"1234", "should contain 5 values, but contains 4"),
        (b"\0\0\x08\x01" + struct.pack(">I", 3) + b"1234", "should contain 3 values, but contains 4"),
        (b"\0\0\x08\x02" + struct.pack(">II", 2**32 - 1, 2**32 - 1), "should contain"),
    ],
)
def test_a_damaged_idx_file_is_reported(tmp_path: Path, raw: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(idx.IdxError, match=words):
        idx.read_idx(path)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(raw + b"x" * 100)[:-10])
    with pytest.raises(idx.IdxError, match="damaged"):
        idx.read_idx(cut)


@pytest.mark.parametrize("folder", ["", "MNIST/raw", "FashionMNIST/raw"])
def test_mnist_is_found_in_a_folder_or_as_torchvision_keeps_it(tmp_path: Path, folder: str) -> None:
    idx_file(tmp_path / folder / "train-images-idx3-ubyte.gz", 0x0803, (3, 28, 28), bytes(range(256)) * 9 + bytes(48))
    idx_file(tmp_path / folder / "train-labels-idx1-ubyte", 0x0801, (3,), bytes([7, 0, 9]))
    name, images, labels = idx.load(tmp_path, "train")
    assert name == (folder.split("/")[0] or tmp_path.name)
    assert images.shape == (3, 28, 28)
    assert labels.tolist() == [7, 0, 9]
    with pytest.raises(FileNotFoundError, match="t10k-images"):
        idx.load(tmp_path, "t10k")


def test_images_and_labels_that_do_not_match_are_reported(tmp_path: Path) -> None:
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    idx_file(images, 0x0803, (2, 28, 28), bytes(2 * 784))
    idx_file(labels, 0x0801, (3,), bytes(3))
    with pytest.raises(idx.IdxError, match="labels for 2 images"):
        idx.load(tmp_path, "train")
    idx_file(labels, 0x0801, (2,), bytes([1, 10]))
    with pytest.raises(idx.IdxError, match="the label 10"):
        idx.load(tmp_path, "train")
    idx_file(images, 0x0803, (2, 32, 32), bytes(2 * 1024))
    with pytest.raises(idx.IdxError, match="28 x 28"):
        idx.load(tmp_path, "train")


def data_set(folder: Path, monkeypatch: pytest.MonkeyPatch, count: int = 3) -> dict[str, Path]:
    """Write a small data set whose files stand for the published ones: their checksums are taken for those."""
    paths, known = {}, {}
    for part in ("train", "t10k"):
        images = idx_file(folder / f"{part}-images-idx3-ubyte.gz", 0x0803, (count, 28, 28), bytes(count * 784))
        labels = idx_file(folder / f"{part}-labels-idx1-ubyte.gz", 0x0801, (count,), bytes([len(part)] * count))
        for path in (images, labels):
            paths[path.name.removesuffix("-ubyte.gz")] = path
            known.setdefault(hashlib.md5(path.read_bytes()).hexdigest(), ("MNIST", path.name.removesuffix(".gz")))
    monkeypatch.setattr(idx, "_PUBLISHED", known)
    monkeypatch.setattr(idx, "_COUNTS", {"train": count, "t10k": count})
    return paths


def test_a_published_file_is_known_by_its_checksum_and_any_other_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = data_set(tmp_path, monkeypatch)
    assert idx.published(paths["train-labels-idx1"]) == ("MNIST", "train-labels-idx1-ubyte")
    assert idx.notes(tmp_path, "train") == []
    idx_file(paths["train-labels-idx1"], 0x0801, (3,), bytes([1, 2, 9]))  # right in its shape, and not the published one
    (note,) = idx.notes(tmp_path, "train")
    assert "train-labels-idx1-ubyte.gz is not a published file" in note
    assert idx.load(tmp_path, "train")[2].tolist() == [1, 2, 9]
    monkeypatch.setattr(idx, "_COUNTS", {"train": 60_000, "t10k": 10_000})
    assert "contains 3 labels, the published file 60000" in idx.notes(tmp_path, "train")[1]


def test_a_published_file_under_anothers_name_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = data_set(tmp_path, monkeypatch)
    paths["train-labels-idx1"].write_bytes(paths["t10k-labels-idx1"].read_bytes())
    with pytest.raises(idx.IdxError, match="is t10k-labels-idx1-ubyte of MNIST under another name"):
        idx.notes(tmp_path, "train")


def test_images_and_labels_of_two_data_sets_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = data_set(tmp_path, monkeypatch)
    checksum = hashlib.md5(paths["train-labels-idx1"].read_bytes()).hexdigest()
    monkeypatch.setitem(idx._PUBLISHED, checksum, ("FashionMNIST", "train-labels-idx1-ubyte"))
    with pytest.raises(idx.IdxError, match="belong to different data sets"):
        idx.notes(tmp_path, "train")


def test_the_checksums_are_those_of_eight_files() -> None:
    assert len(idx._PUBLISHED) == 8
    assert all(re.fullmatch("[0-9a-f]{32}", checksum) for checksum in idx._PUBLISHED)
    assert len(set(idx._PUBLISHED.values())) == 8


def test_models_have_the_size_that_their_papers_give() -> None:
    def parameters(model: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    assert parameters(models.LeNet()) == 61_706
    assert parameters(models.ResNet18()) == 11_689_512  # the published networks: 3 channels, 1000 classes
    assert parameters(models.ResNet101()) == 44_549_160
    for name in models.MODELS:
        assert models.build(name)(torch.randn(2, 1, 28, 28)).shape == (2, 10)
    assert models.ResNet18()(torch.randn(1, 3, 64, 64)).shape == (1, 1000)


def places(count: int) -> list[devices.Place]:
    return [devices.Place(torch.device("cpu"), index) for index in range(count)]


@pytest.mark.parametrize(("batch", "replicas"), [(8, 2), (5, 4), (1, 2), (9, 3)])
def test_the_engine_gives_the_gradients_of_one_model(batch: int, replicas: int) -> None:
    torch.manual_seed(0)
    single = models.LeNet()
    images, labels = torch.randn(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    engine = cpu_data_parallel.DataParallel(models.LeNet(), places(replicas))
    engine.module.load_state_dict(single.state_dict())
    assert (engine.device_ids, engine.dim) == (list(range(replicas)), 0)
    for _ in range(2):  # twice: gradients add up, as they do without the engine
        expected, output = single(images), engine(images)
        assert torch.allclose(output, expected, atol=1e-6)
        torch.nn.functional.cross_entropy(expected, labels).backward()
        torch.nn.functional.cross_entropy(output, labels).backward()
    for mine, its in zip(engine.parameters(), single.parameters(), strict=True):
        assert mine.grad is not None
        assert torch.allclose(mine.grad, its.grad, atol=1e-5)
    used = -(-batch // -(-batch // replicas))  # the pieces that torch.chunk makes
    held = [worker.held_bytes for worker in engine.workers]
    assert [size > 0 for size in held] == [index < used for index in range(replicas)]
    pieces = [piece.numel() * 4 for piece in images.chunk(replicas)]
    assert held[:used] == [2 * 61_706 * 4 + size for size in pieces]  # weights, gradients, its piece of the batch


def test_replicas_work_in_threads_of_their_own_and_hooks_reach_them() -> None:
    import threading

    engine = cpu_data_parallel.DataParallel(models.LeNet(), places(3))
    seen: list[tuple[int, int]] = []
    engine.module.register_forward_pre_hook(lambda _, args: seen.append((threading.get_native_id(), len(args[0]))))
    with torch.no_grad():
        output = engine(torch.randn(7, 1, 28, 28))
    assert not output.requires_grad
    threads = [worker.thread_id for worker in engine.workers]
    assert sorted(seen) == sorted(zip(threads, (3, 3, 1), strict=True))
    assert threading.get_native_id() not in threads
    assert [worker.place.virtual_index for worker in engine.workers] == [0, 1, 2]


def test_shared_weights_stay_shared_and_averages_follow_replica_0() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.second = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.norm(self.first(x)))

    torch.manual_seed(0)
    engine = cpu_data_parallel.DataParallel(Tied(), places(2))
    alone = Tied()
    alone.load_state_dict(engine.module.state_dict())
    batch = torch.randn(8, 4)
    engine(batch).sum().backward()
    alone(batch[:4])
    assert torch.allclose(engine.module.norm.running_mean, alone.norm.running_mean)
    assert engine.module.norm.num_batches_tracked == 1
    assert engine.module.first.weight.grad is not None
    assert engine.module.second.weight is engine.module.first.weight


def test_an_error_in_a_replica_reaches_the_caller() -> None:
    engine = cpu_data_parallel.DataParallel(models.LeNet(), places(2))
    with pytest.raises(RuntimeError, match="channels"):
        engine(torch.randn(4, 2, 28, 28))


def test_virtual_devices_follow_the_mask_and_share_a_core(tmp_path: Path) -> None:
    """In a process of its own: taking a device pins the process."""
    script = tmp_path / "take.py"
    script.write_text(
        "import os, sys; sys.path.insert(0, sys.argv[1]); cores = sorted(os.sched_getaffinity(0))\n"
        "import devices, torch\n"
        "place = devices.take(int(sys.argv[2]))\n"
        "core = sorted(os.sched_getaffinity(0))\n"
        "own = cores[place.virtual_index : place.virtual_index + 1] or cores\n"
        "print(devices.count(), place.virtual_index, torch.get_num_threads(), core == own)\n"
    )

    def taken(index: int, mask: str) -> tuple[str, str]:
        environment = {**os.environ, "GPUTOP_VIRTUAL_DEVICES": mask, "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, str(script), str(DEMOS), str(index)]
        return nursery().start(command, tmp_path, environment).communicate(timeout=180)

    said, _ = taken(1, "1,0")
    assert said.split() == ["2", "0", "1", "True"]
    _, beyond = taken(2, "0,1")
    assert "There is no device 2: this process may use 2" in beyond


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_worker_gets_all_cores_of_its_rank_again(method: str, tmp_path: Path) -> None:
    """Also one that is not a fork of it, as by default from Python 3.14 on."""
    script = tmp_path / "train.py"
    script.write_text(
        "import multiprocessing, os, sys; sys.path.insert(0, sys.argv[1])\n"
        "import devices\n"
        "def work():\n"
        "    devices.unpin()\n"
        "    print(sorted(os.sched_getaffinity(0)), flush=True)\n"
        "if __name__ == '__main__':\n"
        "    print(sorted(os.sched_getaffinity(0)), flush=True)\n"
        "    devices.take(0)\n"
        "    worker = multiprocessing.get_context(sys.argv[2]).Process(target=work)\n"
        "    worker.start()\n"
        "    worker.join()\n"
    )
    done = subprocess.run([sys.executable, script, DEMOS, method], capture_output=True, text=True, timeout=180, check=False)
    whole, again = done.stdout.splitlines()
    assert again == whole, done.stderr


def test_an_engine_with_several_arguments_cuts_them_as_torch_does() -> None:
    tensor, mask = torch.arange(8).view(8, 1), torch.ones(1, 4)
    assert [len(piece) for piece in cpu_data_parallel.scatter(tensor, 3)] == [3, 3, 2]
    assert cpu_data_parallel.scatter("text", 2) == ["text", "text"]
    assert [len(piece[0]) for piece in cpu_data_parallel.scatter((tensor, mask), 4)] == [2]  # the rest is lost
    pieces = cpu_data_parallel.scatter([{"x": tensor, "how": 1}], 4)
    assert [(len(piece[0]["x"]), piece[0]["how"]) for piece in pieces] == [(2, 1)] * 4


@pytest.mark.parametrize(
    ("scale_batch", "scale_lr", "devices_", "samples", "lr"),
    [
        ("per-gpu", "none", 4, 256, 0.1),
        ("per-gpu", "linear", 4, 256, 0.4),
        ("per-gpu", "sqrt", 4, 256, 0.2),
        ("global", "linear", 4, 64, 0.1),
        ("global", "none", 3, 64, 0.1),
    ],
)
def test_batch_and_learning_rate_scale(scale_batch: str, scale_lr: str, devices_: int, samples: int, lr: float) -> None:
    args = argparse.Namespace(batch_size=64, lr=0.1, scale_batch=scale_batch, scale_lr=scale_lr)
    assert options.global_batch(args, devices_) == samples
    assert options.learning_rate(args, options.global_batch(args, devices_)) == pytest.approx(lr)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_from_scratch_steps_as_one_model_does(count: int) -> None:
    torch.manual_seed(0)
    single = models.LeNet()
    workers = [devices.Worker(place) for place in places(count)]
    replicas = from_scratch.broadcast(single, [worker.place for worker in workers])
    optimizers = [torch.optim.SGD(replica.parameters(), lr=0.1) for replica in replicas]
    alone = torch.optim.SGD(single.parameters(), lr=0.1)
    images, labels = torch.randn(12, 1, 28, 28), torch.randint(0, 10, (12,))
    for _ in range(2):
        expected = torch.nn.functional.cross_entropy(single(images), labels)
        found = from_scratch.train_step(replicas, optimizers, workers, images, labels)
        assert float(found) == pytest.approx(float(expected.detach()), rel=1e-4)
        alone.zero_grad()
        expected.backward()
        alone.step()
    for replica in replicas:
        for mine, its in zip(replica.parameters(), single.parameters(), strict=True):
            assert torch.allclose(mine, its, atol=1e-5)


@pytest.mark.parametrize("micro_batches", [1, 3, 4])
def test_the_pipeline_gives_the_gradients_of_one_model(micro_batches: int) -> None:
    torch.manual_seed(0)
    single, cut = models.LeNet(), models.LeNet()
    cut.load_state_dict(single.state_dict())
    first, second = (devices.Worker(place) for place in places(2))
    pipeline = model_parallel.Pipeline(*model_parallel.halves(cut), (first, second))
    images, labels = torch.randn(12, 1, 28, 28), torch.randint(0, 10, (12,))
    expected = torch.nn.functional.cross_entropy(single(images), labels)
    expected.backward()
    assert float(pipeline.train_step(images, labels, micro_batches)) == pytest.approx(float(expected.detach()), rel=1e-4)
    assert torch.allclose(pipeline.scores(images), single(images), atol=1e-5)
    for mine, its in zip(cut.parameters(), single.parameters(), strict=True):
        assert mine.grad is not None
        assert torch.allclose(mine.grad, its.grad, atol=1e-5)
    assert min(pipeline.busy_s) > 0


def test_a_resnet_is_cut_into_halves_that_are_the_whole() -> None:
    model = models.build("resnet18").eval()
    first, second = model_parallel.halves(model)
    images = torch.randn(2, 1, 28, 28)
    assert torch.allclose(second(first(images)), model(images), atol=1e-4)
