"""A loss that only rises for long, without any noise, has diverged before it is many times its lowest value (J02)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

Course = Callable[[int], float]
STEADY = 13
"""Before this line, the loss of a language model has come to its limit."""


def rises(factor: float) -> Course:
    return lambda at: 3.02 if at < STEADY else 3.02 * factor ** (at - STEADY)


@pytest.mark.parametrize(
    ("course", "lines", "found"),
    [
        (rises(1.035), 40, True),
        (rises(1.035), 30, False),
        (rises(1.005), 60, False),
        (lambda at: rises(1.035)(at) * (0.9 if at % 7 == 0 else 1.0), 40, True),
        (lambda at: rises(1.035)(at) if at < 38 else 3.02, 40, False),
    ],
    ids=["twice its lowest", "not yet", "a little", "with noise", "falls again"],
)
def test_a_loss_that_only_rises(course: Course, lines: int, found: bool, tmp_path: Path) -> None:
    text = " iteration {at:8d}/ 120000 | learning rate: 1.2E-04 | global batch size:   512 | lm loss: {loss:.6E} |"
    log = tmp_path / "train.log"
    log.write_text("\n".join(text.format(at=41200 + 10 * at, loss=course(at)) for at in range(lines)) + "\n")
    assert ("J02" in {item.id for item in explain_logs([str(log)])[0]}) is found


@pytest.mark.parametrize(
    ("best", "now", "found"),
    [(7.5, 13.0, True), (7.5, 11.0, False), (9.5, 13.0, False)],
    ids=["worse", "as at first", "no better"],
)
def test_a_loss_that_ends_above_that_of_a_new_model(best: float, now: float, found: bool, tmp_path: Path) -> None:
    """The loss of a language model: however noisy, a new model would answer better."""
    log = tmp_path / "train.log"
    middle = [10.8, 9.9, 9.2, *(best + 0.2 * (at % 3) for at in range(12))]
    course = [*middle, *(best + (now - best) * at / 40 + 0.9 * ((at * 7) % 5 - 2) / 2 for at in range(40))]
    course += [now + 0.4 * ((at * 7) % 5 - 2) / 2 for at in range(30)]
    log.write_text("\n".join(f"iter {at * 10}: loss {loss:.4f}, time 2712.96ms" for at, loss in enumerate(course)) + "\n")
    assert ("J02" in {item.id for item in explain_logs([str(log)])[0]}) is found


@pytest.mark.parametrize(
    ("now", "found"),
    [(8.0, True), (5.0, False)],
    ids=["it stays at twice its lowest", "it stays a little above"],
)
def test_a_loss_that_has_risen_and_stays_up(now: float, found: bool, tmp_path: Path) -> None:
    def course(at: int) -> float:
        if at < 26:
            return 11 - 0.27 * at
        return min(now, 3.95 + 0.18 * max(0, at - 36)) + at % 3 / 100

    log = tmp_path / "train.log"
    log.write_text("".join(f"iter {100 * at}: loss {course(at):.4f}, time 1312.39ms, mfu 38.82%\n" for at in range(84)))
    assert ("J02" in {item.id for item in explain_logs([str(log)])[0]}) is found
