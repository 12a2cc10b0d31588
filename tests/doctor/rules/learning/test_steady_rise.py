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
        (lambda at: rises(1.035)(at) * (0.9 if at % 7 == 0 else 1.0), 40, False),
        (lambda at: rises(1.035)(at) if at < 38 else 3.02, 40, False),
    ],
    ids=["twice its lowest", "not yet", "a little", "with noise", "falls again"],
)
def test_a_loss_that_only_rises(course: Course, lines: int, found: bool, tmp_path: Path) -> None:
    text = " iteration {at:8d}/ 120000 | learning rate: 1.2E-04 | global batch size:   512 | lm loss: {loss:.6E} |"
    log = tmp_path / "train.log"
    log.write_text("\n".join(text.format(at=41200 + 10 * at, loss=course(at)) for at in range(lines)) + "\n")
    assert ("J02" in {item.id for item in explain_logs([str(log)])[0]}) is found
