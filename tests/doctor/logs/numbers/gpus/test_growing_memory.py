"""Memory that grows for as long as a log reports it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found


def lines(text: str, course: Callable[[int], float], number: int = 12) -> list[str]:
    return [f"step {at * 100} loss {9 / (at + 1):.3f} | {text.format(course(at))}" for at in range(number)]


GROWS: Callable[[int], float] = lambda at: 10.0 + at  # noqa: E731


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("cuda {:.1f}G", "memory of the GPU"),
        ("gpumem {:.2f} reserved 12.0", "memory of the GPU"),
        ("alloc {:6.2f} GiB  resv 12.00 GiB", "memory of the GPU"),
        ("rss(with workers) {:.1f}G", "memory of the host"),
        ("host: used {:.0f} GB, free 189 GB", "memory of the host"),
        ("mem {:.1f}GiB", "memory"),
        ("VRAM {:.1f} Go", "memory of the GPU"),
        ("epokku 3 memori wariate {:.1f} GiB", "memory"),
        ("memoria asignada    {:.0f} MiB", "memory"),
        ("mem {:.2f} / 24.00 GiB", "memory"),
    ],
)
def test_memory_that_grows_all_the_time(text: str, where: str, tmp_path: Path) -> None:
    finding = found(tmp_path, lines(text, GROWS), "H06")
    assert finding is not None
    assert finding.title.startswith(f"The {where} grows all the time: ")
    assert finding.confidence == "likely"
    assert found(tmp_path, lines(text, GROWS, 7), "H06") is None


@pytest.mark.parametrize(
    ("text", "where"), [("MaxMemAllocated={:.2f}GB", "memory of the GPU"), ("[r3] max mem: {:.0f}", "memory")]
)
def test_a_peak_must_grow_more_and_longer(text: str, where: str, tmp_path: Path) -> None:
    few = found(tmp_path, lines(text, GROWS), "H06")
    assert few is not None
    assert few.title.startswith(f"The {where} grows all the time: ")
    assert few.confidence == "possible"
    many = found(tmp_path, lines(text, lambda at: 10.0 + 4 * at, 30), "H06")
    assert many is not None
    assert many.confidence == "likely"


@pytest.mark.parametrize("what", ["size", "seq_len", "resolution:", "batch_size="])
def test_memory_that_grows_with_the_size_of_what_is_trained_on(what: str, tmp_path: Path) -> None:
    texts = [f"{line} {what} {128 + 32 * at}" for at, line in enumerate(lines("gpu mem {:.1f}G", GROWS))]
    finding = found(tmp_path, texts, "H06")
    assert finding is not None
    assert finding.confidence == "possible"


@pytest.mark.parametrize("text", ["Loaded shard {}: {} GB used", "Trying batch size {}: peak mem {} GB ok"])
def test_what_is_loaded_or_tried_grows_on_purpose(text: str, tmp_path: Path) -> None:
    finding = found(tmp_path, [text.format(at, 2.5 * at + 2) for at in range(20)], "H06")
    assert finding is None or finding.confidence == "possible"


def test_the_column_of_ultralytics(tmp_path: Path) -> None:
    row = "      {}/60      {:.2f}G      1.465      1.721         50        640: 100%|██| 320/320 [00:41<00:00,  7it/s]"
    lines = [row.format(epoch, 4.2 + 0.56 * epoch) for epoch in range(1, 20)]
    finding = found(tmp_path, lines, "H06")
    assert finding is not None
    assert finding.title.startswith("The memory of the GPU grows all the time: gpu_mem from 4.76 G to ")
    assert found(tmp_path, [row.format(epoch, 4.2) for epoch in range(1, 20)], "H06") is None


def test_each_rank_has_a_memory_of_its_own(tmp_path: Path) -> None:
    ranks = [f"r{rank} s{at} loss 1.5 | rss {20.0 + 10 * rank + at:.1f}G" for at in range(24) for rank in range(4)]
    finding = found(tmp_path, ranks, "H06")
    assert finding is not None
    assert "from 20 G to 43 G" in finding.title


@pytest.mark.parametrize(
    "course",
    [
        lambda at: 10.0,
        lambda at: min(10.0 + 5 * at, 30.0),
        lambda at: 10.0 if at < 6 else 20.0,
        lambda at: 10.0 + 0.1 * at,
        lambda at: 10.0 + at % 3,
        lambda at: 40.0 - at,
    ],
    ids=["stays", "is full", "was larger once", "hardly grows", "goes up and down", "shrinks"],
)
def test_memory_that_is_only_used(course: Callable[[int], float], tmp_path: Path) -> None:
    assert found(tmp_path, lines("cuda {:.1f}G", course, 24), "H06") is None


@pytest.mark.parametrize(
    "text",
    ["free mem {:.1f}G", "replay mem {:.1f} GB", "memory/alloc_retries: {:.1f}", "ramp {:.1f}", "cuda:{:.0f}", "used {:.1f}"],
)
def test_other_numbers_that_grow(text: str, tmp_path: Path) -> None:
    assert found(tmp_path, lines(text, GROWS, 24), "H06") is None


def test_the_peak_that_mmengine_prints_without_a_unit(tmp_path: Path) -> None:
    text = "time: 0.4870  data_time: 0.0106  memory: {:.0f}"
    finding = found(tmp_path, lines(text, lambda at: 9000.0 + 1600 * at, 30), "H06")
    assert finding is not None
    assert finding.title == "The memory grows all the time: peak of the memory from 9000 MiB to 55400 MiB"
    assert finding.confidence == "likely"
    assert found(tmp_path, lines(text, lambda at: 9000.0 + 4000 * (at > 3), 30), "H06") is None, "once larger"


def test_memory_that_is_free_in_other_languages(tmp_path: Path) -> None:
    assert found(tmp_path, lines("memoria libre {:.1f} GiB", GROWS), "H06") is None


def test_what_deepspeed_says_is_allocated(tmp_path: Path) -> None:
    text = "MA {:.2f} GB Max_MA 80.02 GB CA 86.10 GB Max_CA 86 GB"
    finding = found(tmp_path, lines(text, lambda at: 32.0 + 3 * at), "H06")
    assert finding is not None
    assert finding.title == "The memory of the GPU grows all the time: allocated from 32 GB to 65 GB"
    assert found(tmp_path, lines(text, lambda at: 32.0), "H06") is None
