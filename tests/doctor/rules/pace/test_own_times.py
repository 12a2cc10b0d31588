"""D01 by the times that a run logs itself: in its files, its output, or with ``gputop.log``."""

from __future__ import annotations

import pytest

from tests.doctor.scenes.base import Scene, ids, only_shown, play, verdict
from tests.doctor.scenes.near.learning import falls, with_metrics
from tests.doctor.tracked import single


def logs(data_s: float, step_s: float = 0.5, names: tuple[str, str] = ("data_time", "time")) -> Scene:
    metrics = {"loss": falls, names[0]: lambda rank, step: data_s, names[1]: lambda rank, step: step_s}
    return lambda second: with_metrics(single(second, {}, metrics=metrics))


@pytest.mark.parametrize("names", [("data_time", "time"), ("train/data_time", "train/time"), ("data_s", "step_time")])
def test_a_large_share_is_reported_with_the_metrics_it_comes_from(names: tuple[str, str]) -> None:
    finding = verdict(only_shown(logs(0.3, names=names), {"source": "log"}), 30)
    assert (finding.id, finding.severity, finding.confidence) == ("D01", "warning", "likely")
    assert finding.title == "The run waits for data: 60% of each step, by its own numbers"
    assert finding.evidence[0].source == f"its output: {names[0]}, {names[1]}"


@pytest.mark.parametrize(
    ("name", "scene"),
    {
        "a small share": logs(0.1),
        "more data than step": logs(0.8),
        "no time of the step": logs(0.3, names=("data_time", "lr_time")),
        "times of two things": logs(0.3, names=("train/data_time", "val/time")),
    }.items(),
)
def test_other_waits_are_not_waits_for_data(name: str, scene: Scene) -> None:
    assert "D01" not in ids(play(only_shown(scene), 30)[-1]), name
