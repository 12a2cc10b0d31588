"""Steps that are far slower than the mean of their epoch, in the lines of PyTorch's example on ImageNet (E10)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.findings.finding import Finding

SLOW = [(9.529, 5.081), (10.026, 5.122), (9.653, 5.159), (9.948, 5.199), (9.995, 5.238), (10.562, 5.281), (10.318, 5.321)]


def said(tmp_path: Path, times: Sequence[tuple[float, float]], head: str = "Epoch: [0]") -> Finding | None:
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            f"{head}[{118 + at}/190], lr: 0.01\tTime {step:.3f} ({mean:.3f})\tData 0.002 (0.004)\tLoss 0.{60 - at} (2.02)\n"
            for at, (step, mean) in enumerate(times)
        )
    )
    return next((item for item in explain_logs([str(log)])[0] if item.id == "E10"), None)


def test_each_step_is_far_above_the_mean(tmp_path: Path) -> None:
    finding = said(tmp_path, SLOW)
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title == "The run has become slower: a step takes 2.0 times the mean of the epoch before"
    assert [fact.text for fact in finding.evidence[1:]] == ["the mean of all steps before was 5s", "so in each of 7 reports"]


@pytest.mark.parametrize(
    "times",
    {
        "few": SLOW[:5],
        "the newest is as before": [*SLOW, (5.2, 5.32)],
        "a little": [(step * 0.7, mean) for step, mean in SLOW],
        "slow at first": [(0.18, 0.543 - at / 40) for at in range(8)],
        "an epoch begins": [*SLOW[:4], (9.5, 5.081), *SLOW[4:6]],
        "no time": [(0.0, 0.0)] * 8,
        "no running mean": [(9.5, 5.0)] * 8,
    }.values(),
)
def test_steps_that_are_as_slow_as_usual(times: list[tuple[float, float]], tmp_path: Path) -> None:
    assert said(tmp_path, times) is None


def test_an_evaluation_has_a_pace_of_its_own(tmp_path: Path) -> None:
    assert said(tmp_path, SLOW, head="Test: ") is None


@pytest.mark.parametrize("text", ["[{at}/190] Time {step:.3f} ({mean:.3f})", "Time {step:.3f} ({mean:.3f}) Loss 0.5"])
def test_times_of_something_else_than_the_steps_of_a_training(text: str, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(text.format(at=at, step=step, mean=mean) for at, (step, mean) in enumerate(SLOW)) + "\n")
    assert all(item.id != "E10" for item in explain_logs([str(log)])[0])
