"""A loss that stays at that of a guess, without an accuracy beside it (J03)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop import units
from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.findings.finding import Finding

Course = Callable[[float, random.Random], float]
"""The loss after a share of the run."""
EIGHT = math.log(8)


def at(loss: float, noise: float = 0.01) -> Course:
    return lambda share, rng: loss * (1 + rng.gauss(0, noise))


def falling(start: float, end: float, until: float = 1.0) -> Course:
    return lambda share, rng: start + (end - start) * min(1.0, share / until) + rng.gauss(0, 0.001)


def judged(
    course: Course, folder: Path, *, steps: int = 1000, every: int = 10, line: str = "step {0} loss {1:.4f}"
) -> Finding | None:
    rng = random.Random(3)
    log = folder / "train.log"
    log.write_text("".join(f"{line.format(step, course(step / steps, rng))}\n" for step in range(every, steps + 1, every)))
    found = (item for item in explain_logs([str(log)])[0] if item.id == "J03" and "guess" in item.title)
    return next(found, None)


def by_epochs(course: Course, folder: Path, epochs: int) -> Finding | None:
    return judged(course, folder, steps=epochs, every=1, line="Epoch {0:3d}  loss {1:.4f}")


@pytest.mark.parametrize("classes", [2, 5, 8, 10, 12, 100, 200, 1000])
def test_a_loss_that_stays_at_that_of_a_guess_does_not_learn(classes: int, tmp_path: Path) -> None:
    steps = 1000 * max(1, classes // 10)
    finding = judged(at(math.log(classes)), tmp_path, steps=steps, every=min(50, steps // 100))
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title.startswith(
        f"After {units.count(steps)} steps, the loss is still that of a guess among {classes} classes"
    )


def test_epochs_count_where_steps_are_few(tmp_path: Path) -> None:
    assert by_epochs(at(EIGHT, 0.001), tmp_path, 9) is None
    finding = by_epochs(at(EIGHT, 0.001), tmp_path, 12)
    assert finding is not None
    assert finding.title.startswith("After 12 epochs, ")


@pytest.mark.parametrize(("steps", "found"), [(490, False), (520, True)])
def test_it_takes_five_hundred_steps(steps: int, found: bool, tmp_path: Path) -> None:
    assert (judged(at(EIGHT), tmp_path, steps=steps) is not None) is found


@pytest.mark.parametrize(("times", "found"), [(0.994, False), (0.998, True), (1.008, True), (1.013, False)])
def test_the_loss_of_a_guess_is_known_exactly(times: float, found: bool, tmp_path: Path) -> None:
    assert (judged(at(EIGHT * times, 0.001), tmp_path) is not None) is found


@pytest.mark.parametrize(
    ("start", "until", "severity"),
    [(1.01, 0.05, "warning"), (1.09, 0.05, "info"), (1.3, 0.05, None), (1.08, 0.5, None)],
    ids=["a new classifier", "a bad start", "it has learned much", "it has learned for long"],
)
def test_what_fell_to_the_loss_of_a_guess_may_have_learned(
    start: float, until: float, severity: str | None, tmp_path: Path
) -> None:
    finding = judged(falling(EIGHT * start, EIGHT, until), tmp_path)
    assert (finding.severity if finding is not None else None) == severity


@pytest.mark.parametrize(("classes", "steps", "found"), [(100, 4900, False), (100, 5100, True), (1000, 45_000, False)])
def test_many_classes_take_more_steps(classes: int, steps: int, found: bool, tmp_path: Path) -> None:
    assert (judged(at(math.log(classes)), tmp_path, steps=steps, every=50) is not None) is found


@pytest.mark.parametrize("loss", [1e308, -1e308, math.nan, math.inf, 0.0, 5e-324])
def test_no_loss_breaks_it(loss: float, tmp_path: Path) -> None:
    assert judged(lambda share, rng: loss, tmp_path, line="step {0} loss {1!r}") is None


def test_a_rate_that_still_rises_explains_a_loss_that_stays(tmp_path: Path) -> None:
    line = "step {0} loss {1:.4f} lr {0}e-6"
    assert judged(at(EIGHT), tmp_path, line=line) is None


@pytest.mark.parametrize(("bump", "found"), [(0.04, True), (0.07, False)])
def test_an_average_that_leaves_it_shows_that_something_moves(bump: float, found: bool, tmp_path: Path) -> None:
    """One of the 32 averages of the course, of 32 losses each."""
    course: Course = lambda share, rng: EIGHT * (1 + bump * (0.737 <= share <= 0.768) + rng.gauss(0, 0.001))  # noqa: E731
    assert (judged(course, tmp_path, steps=10_000) is not None) is found


@pytest.mark.parametrize(("by", "found"), [(0.012, True), (0.025, False)])
def test_a_mean_that_is_not_sure_says_nothing(by: float, found: bool, tmp_path: Path) -> None:
    """Its averages differ by so much from it, in turn."""
    course: Course = lambda share, rng: EIGHT * (1 + by * (-1) ** round(16 * share))  # noqa: E731
    assert (by_epochs(course, tmp_path, 16) is not None) is found


@pytest.mark.parametrize(
    ("course", "line"),
    [
        (falling(EIGHT, 1.2), "step {0} loss {1:.4f}"),
        (lambda share, rng: EIGHT if share < 0.9 else EIGHT * 0.96, "step {0} loss {1:.4f}"),
        (at(math.log(16), 0.001), "step {0} loss {1:.4f}"),
        (at(math.log(2)), "step {0} d_loss {1:.4f}"),
        (at(math.log(2)), "step {0} domain_loss {1:.4f}"),
    ],
    ids=["it learns", "learning begins late", "no usual number of classes", "a discriminator", "a domain"],
)
def test_other_losses_are_left_alone(course: Course, line: str, tmp_path: Path) -> None:
    assert judged(course, tmp_path, line=line) is None


@pytest.mark.parametrize(("first", "found"), [(40, True), (60, False), (5000, False)])
def test_what_was_seen_from_the_middle_on_is_left_alone(first: int, found: bool, tmp_path: Path) -> None:
    rng = random.Random(3)
    log = tmp_path / "train.log"
    lines = (f"step {step} loss {at(EIGHT)(0.0, rng):.4f}\n" for step in range(first, first + 2000, 10))
    log.write_text("".join(lines))
    assert any("guess" in item.title for item in explain_logs([str(log)])[0]) is found
