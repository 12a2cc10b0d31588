"""Losses that are infinite, although they are printed as a number or in one report only; and healthy ones (J01)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs


def says(tmp_path: Path, text: str) -> tuple[str, str] | None:
    """Return the title of J01 and how certain it is."""
    log = tmp_path / "train.log"
    log.write_text(text)
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J01"), None)
    return None if found is None else (found.title, found.confidence)


def caffe(losses: Iterable[float]) -> str:
    return "".join(
        f"I0312 09:41:{10 + at:02d}.104731  4182 solver.cpp:228] Iteration {400 + 20 * at}, loss = {loss:g}\n"
        f"I0312 09:41:{10 + at:02d}.104802  4182 solver.cpp:244]     Train net output #0: loss = {loss:g} (* 1 = {loss:g} "
        "loss)\n"
        for at, loss in enumerate(losses)
    )


def test_what_caffe_makes_of_infinity(tmp_path: Path) -> None:
    said = says(tmp_path, caffe((2.31, 2.44, 87.3365, 87.3365, 87.3365)))
    assert said == ("The loss is 87.34, which is what Caffe makes of NaN, since step 440", "likely")
    assert says(tmp_path, caffe((87.3365, 87.3365))) is not None


@pytest.mark.parametrize(
    "losses",
    [(87.3365, 4.12, 3.98, 3.71), (87.3365,), (87.3365, 86.91, 87.3365, 85.2), (87.3421, 87.3388, 87.3402), (0.0, 0.0, 0.0)],
    ids=["at first only", "one iteration", "some samples", "others", "zero"],
)
def test_another_loss_of_caffe(losses: tuple[float, ...], tmp_path: Path) -> None:
    assert says(tmp_path, caffe(losses)) is None


def agent(value: str, iteration: int = 5120, name: str = "Value function loss") -> str:
    return (
        f"{'#' * 60}\n{f'Learning iteration {iteration}/8000':^60}\n\n"
        f"{'Computation:':>30} 21904 steps/s (collection: 2.104s, learning 0.322s)\n"
        f"{name + ':':>30} {value}\n{'Surrogate loss:':>30} -0.0021\n{'Mean action noise std:':>30} 0.48\n"
        f"{'Mean reward:':>30} 18.31\n{'Mean episode length:':>30} 871.40\n{'-' * 60}\n"
    )


def test_one_of_several_losses_that_is_infinite(tmp_path: Path) -> None:
    said = says(tmp_path, agent("inf"))
    assert said == ("value_function_loss is infinite since step 5 120 or earlier", "possible")
    assert says(tmp_path, agent("0.0412", 5118) + agent("0.0387", 5119) + agent("inf")) is not None


@pytest.mark.parametrize(
    "text",
    [
        agent("0.0412"),
        agent("nan"),
        agent("inf", 3),
        agent("inf") + agent("0.0413", 5121),
        agent("inf", name="Best value loss"),
        "".join(
            f"step {at} ctc_loss {'inf' if at == 1300 else 41.2} att_loss 12.1 loss 22.4\n" for at in range(900, 1400, 100)
        ),
        "".join(f"step {at} best_loss inf loss 0.41 aux_loss 0.11\n" for at in range(2000, 2400, 100)),
        "".join(f"step {at} val_loss inf loss 0.41 aux_loss 0.11\n" for at in range(2000, 2400, 100)),
    ],
    ids=["finite", "nothing to average", "not known yet", "recovers", "the best", "CTC", "the best so far", "an evaluation"],
)
def test_reports_that_are_healthy(text: str, tmp_path: Path) -> None:
    assert says(tmp_path, text) is None
