"""A curriculum: the loss jumps at each level, because the task becomes harder, and falls within it. That is no divergence."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

Write = Callable[[int, int, float], Iterator[str]]
"""Returns the lines for a level, a step and its loss."""


def of_a_curriculum(
    levels: int = 7, per_level: int = 16, noise: float = 0.1, seed: int = 0
) -> Iterator[tuple[int, int, float]]:
    """Yield (level, step, loss): each level begins and ends with a higher loss than the one before it."""
    rng = random.Random(seed)
    step = 0
    for level in range(1, levels + 1):
        high, low = 0.9 + 0.35 * level, 0.12 * 1.5**level
        for place in range(per_level):
            step += 10
            loss = low + (high - low) * math.exp(-3 * place / per_level)
            yield level, step, loss * math.exp(rng.gauss(0, noise))


def of_a_divergence(noise: float, seed: int) -> Iterator[tuple[int, int, float]]:
    """Yield the same of a loss that falls, and then grows without a pause."""
    rng = random.Random(seed)
    for place in range(120):
        loss = 0.2 + 1.1 * math.exp(-place / 12) if place < 60 else min(9.0, 0.2 * 1.09 ** (place - 60))
        yield 1 + place // 20, 10 * place, loss * math.exp(rng.gauss(0, noise))


def shapes(level: int, step: int, loss: float) -> Iterator[str]:
    yield f"level {level} step {step:5d} loss {loss:.4f} acc 0.512"


def wordless(level: int, step: int, loss: float) -> Iterator[str]:
    yield f"[iter {step}/4000] loss={loss:.4f} lr=3.0e-04"


def json_lines(level: int, step: int, loss: float) -> Iterator[str]:
    yield json.dumps({"step": step, "curriculum/stage": level, "train_loss": round(loss, 4)})


class Headings:
    """Writes a heading where a stage begins, in words of its own, and epochs below it."""

    def __init__(self, heading: str) -> None:
        self._heading, self._level = heading, 0

    def __call__(self, level: int, step: int, loss: float) -> Iterator[str]:
        if level != self._level:
            self._level = level
            yield self._heading.format(level)
        yield f"epoch {step // 10} | loss {loss:.4f} | 3.1 s"


def said_of(lines: Sequence[str], tmp_path: Path) -> dict[str, str]:
    """Return the confidence of each finding on a log."""
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    return {item.id: item.confidence for item in explain_logs([str(log)])[0]}


STYLES: dict[str, Callable[[], Write]] = {
    "each line names the level": lambda: shapes,
    "nothing names it": lambda: wordless,
    "JSON": lambda: json_lines,
    "a heading in words": lambda: Headings("==> Stage {}/7: longer sequences"),
    "a heading with a rule": lambda: Headings("======== Task {}: five new classes ========"),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", range(2))
def test_a_curriculum_is_no_divergence_wherever_one_looks(style: str, seed: int, tmp_path: Path) -> None:
    write = STYLES[style]()
    lines = [line for item in of_a_curriculum(seed=seed) for line in write(*item)]
    for end in range(40, len(lines) + 1, 18):
        assert said_of(lines[:end], tmp_path).get("J02", "possible") == "possible", lines[end - 1]


@pytest.mark.parametrize("style", ["nothing names it", "each line names the level"])
@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_a_loss_that_only_grows_is_a_divergence(style: str, noise: float, seed: int, tmp_path: Path) -> None:
    """Also where levels are named: it grows within one, too."""
    write = STYLES[style]()
    lines = [line for item in of_a_divergence(noise, seed) for line in write(*item)]
    assert said_of(lines, tmp_path).get("J02") == "likely"


def test_a_divergence_within_a_level_is_one(tmp_path: Path) -> None:
    *course, (level, step, _) = of_a_curriculum(levels=3)
    course += [(level, step + 10 * more, min(20.0, 0.5 * 1.12**more)) for more in range(60)]
    assert said_of([line for item in course for line in shapes(*item)], tmp_path).get("J02") == "likely"


@pytest.mark.parametrize(("each", "found"), [(1, "likely"), (2, "possible"), (12, "possible")])
def test_what_counts_the_lines_is_no_stage(each: int, found: str, tmp_path: Path) -> None:
    """The loss climbs in stairs, as where a task becomes harder; ``each``: how many lines have the same number."""
    stairs = [0.2 + 1.1 * math.exp(-place / 12) for place in range(60)] + [0.2 * 1.6 ** (1 + at // 12) for at in range(96)]
    lines = [line for at, loss in enumerate(stairs) for line in shapes(1 + at // each, 10 * at, loss)]
    assert said_of(lines, tmp_path).get("J02") == found


@pytest.mark.parametrize("numbers", [(1, 2), (0, 1)])
def test_phases_that_take_turns_are_no_curriculum(numbers: tuple[int, int], tmp_path: Path) -> None:
    course = [(numbers[at % 2], step, loss) for at, (_, step, loss) in enumerate(of_a_divergence(0.05, 1))]
    lines = [f"phase {level} step {step} loss {loss:.4f}" for level, step, loss in course]
    assert said_of(lines, tmp_path).get("J02") == "likely"


def test_a_loss_that_climbs_in_stairs_and_never_falls_is_a_divergence(tmp_path: Path) -> None:
    rng = random.Random(2)
    stairs = [0.2 + 1.1 * math.exp(-place / 12) for place in range(60)] + [0.2 * 1.6 ** (1 + at // 12) for at in range(96)]
    lines = [line for at, loss in enumerate(stairs) for line in wordless(1, 10 * at, loss * math.exp(rng.gauss(0, 0.02)))]
    assert said_of(lines, tmp_path).get("J02") == "likely"
