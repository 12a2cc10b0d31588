"""Memory that lines between the steps of a training print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

Course = Callable[[int], float]
IN_USE = "GPU memory (GPU:{gpu}) current: {now:.2f}, peak: {peak:.2f}"
AVAILABLE = "host memory: total 503.5GB, available: {now:.1f}GB ({percent:.1f}% used)"


def in_use(course: Course, number: int = 8, steps: bool = True, text: str = IN_USE) -> list[str]:
    lines = []
    for at in range(number):
        lines += [f"epoch 1 - it {at + 3}/400 - loss: {3 - at / 90:.3f}"] if steps else []
        lines.append(text.format(gpu=0, now=course(at), peak=4 + course(at)))
    return lines


def available(course: Course, number: int = 30) -> list[str]:
    lines = []
    for at in range(number):
        lines += [f"step {at * 50} loss 0.{999 - at}", AVAILABLE.format(now=course(at), percent=100 - course(at) / 5.035)]
    return lines


@pytest.mark.parametrize("text", [IN_USE, "memory of device:GPU:{gpu} {{'current': {now:.0f}, 'peak': {peak:.0f}}}"])
def test_memory_in_use_that_grows_with_each_step(text: str, tmp_path: Path) -> None:
    finding = found(tmp_path, in_use(lambda at: 40.0 + 7 * at, text=text), "H06")
    assert finding is not None
    assert (finding.confidence, finding.evidence[0].text) == (
        "possible",
        "it grows evenly over 8 reports, with steps between them",
    )
    assert finding.title == "The memory in use grows from step to step: from 40 to 89"
    assert found(tmp_path, in_use(lambda at: 40.0 + 7 * at, 60, text=text), "H06") is not None


@pytest.mark.parametrize(
    "lines",
    {
        "a few": in_use(lambda at: 40.0 + 7 * at, 5),
        "no steps": in_use(lambda at: 40.0 + 7 * at, steps=False),
        "warm-up": in_use(lambda at: 40.0 + 20 * (1 - 0.5**at)),
        "a cache that fills": in_use(lambda at: 40.0 + 7 * min(at, 4)),
        "a saw-tooth": in_use(lambda at: 40.0 + 12 * (at % 3) + at, 12),
        "a saw-tooth that is long": in_use(lambda at: 40.0 + 12 * (at % 9), 90),
        "hardly more": in_use(lambda at: 40.0 + at),
        "less": in_use(lambda at: 90.0 - 7 * at),
        "a peak in few steps": in_use(lambda at: 40.0 + 20 * (at > 2) + 20 * (at > 5)),
        "two GPUs in turn": [
            text
            for at in range(8)
            for text in (f"step {at} loss 0.5", *(IN_USE.format(gpu=gpu, now=40 + 30 * gpu, peak=80) for gpu in (0, 1)))
        ],
        "only a peak": [text for at in range(9) for text in (f"step {at} loss 0.5", f"GPU memory peak: {4 + at}.00")],
    }.values(),
)
def test_memory_in_use_that_is_as_it_should_be(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "H06") is None


def named(course: Course, number: int = 9, steps: bool = True) -> list[str]:
    """Return what a script prints around each of its iterations."""
    lines = []
    for at in range(number):
        lines += [f"Iteration {71 + at}/500"] if steps else []
        lines.append(f"start Current memory usage: {course(at):.2f} MB")
    return lines


def test_memory_that_a_line_names_and_that_rises(tmp_path: Path) -> None:
    finding = found(tmp_path, named(lambda at: 1260.0 + 21 * at - 22 * (at == 5)), "H06")
    assert finding is not None
    title = "The memory in use grows from step to step: from 1260 MB to 1428 MB"
    assert (finding.confidence, finding.title) == ("possible", title)


@pytest.mark.parametrize(
    "lines",
    {
        "few": named(lambda at: 1260.0 + 40 * at, 6),
        "no steps": named(lambda at: 1260.0 + 40 * at, steps=False),
        "hardly more": named(lambda at: 1260.0 + 9 * at),
        "it fills": named(lambda at: 1260.0 + 60 * min(at, 4)),
        "up and down": named(lambda at: 1260.0 + 30 * at + 70 * (at % 2)),
    }.values(),
)
def test_memory_that_a_line_names_and_that_may_rise(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "H06") is None


def test_available_memory_that_shrinks(tmp_path: Path) -> None:
    finding = found(tmp_path, available(lambda at: 480.0 - 9 * at), "H06")
    assert finding is not None
    assert (finding.confidence, finding.title) == (
        "possible",
        "The available memory of the host shrinks from step to step: from 480 GB to 219 GB",
    )


@pytest.mark.parametrize(
    "course",
    {
        "the data is cached once": lambda at: 480.0 - 25 * min(at, 10),
        "a little": lambda at: 480.0 - at,
        "a saw-tooth": lambda at: 480.0 - 20 * (at % 10),
        "it stays": lambda at: 480.0 + at % 2,
        "other jobs end": lambda at: 180.0 + 9 * at,
    }.values(),
)
def test_available_memory_that_is_as_it_should_be(course: Course, tmp_path: Path) -> None:
    assert found(tmp_path, available(course), "H06") is None
