"""D01 by the times that a run logs itself: in its files, its output, or with ``gputop.log``."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.evidence import windows
from gputop.history.points import PointSeries
from tests.doctor.scenes.base import Scene, ids, only_shown, play, verdict
from tests.doctor.scenes.near.learning import falls, with_metrics
from tests.doctor.tracked import single


def logs(data_s: float, step_s: float = 0.5, names: tuple[str, str] = ("data_time", "time")) -> Scene:
    metrics = {"loss": falls, names[0]: lambda rank, step: data_s, names[1]: lambda rank, step: step_s}
    return lambda second: with_metrics(single(second, {}, metrics=metrics))


PADDLE = "Train/reader_cost", "Train/batch_cost"


@pytest.mark.parametrize("names", [("data_time", "time"), ("train/data_time", "train/time"), ("data_s", "step_time"), PADDLE])
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


STEPS = 120
WITH_DATA = "step {step} loss {loss:.4f} time: {s:.2f}s data: 0.01s"
IN_MS = "step {step} | loss {loss:.4f} | norm 0.81 | dt {ms:.0f}ms"


def printed_times(long: set[int], long_s: float, line: str = WITH_DATA) -> list[str]:
    times = (long_s if step in long else 0.5 for step in range(1, STEPS + 1))
    return [line.format(step=n, loss=2 - n / 500, s=time, ms=1000 * time) for n, time in enumerate(times, 1)]


@pytest.mark.parametrize("line", [WITH_DATA, IN_MS])
@pytest.mark.parametrize(
    ("long", "long_s", "confidence"),
    {
        "every 20 steps": (set(range(20, STEPS + 1, 20)), 8.0, "likely"),
        "a smaller share": (set(range(20, STEPS + 1, 20)), 3.2, "possible"),
        "hardly any time": (set(range(40, STEPS + 1, 40)), 2.6, None),
        "now and then": ({13, 21, 60, 65, 101}, 8.0, None),
        "not several times as long": (set(range(20, STEPS + 1, 20)), 2.0, None),
        "only twice": ({40, 80}, 20.0, None),
    }.values(),
)
def test_printed_times_that_are_long_at_regular_distances(
    line: str, long: set[int], long_s: float, confidence: str | None, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(printed_times(long, long_s, line)) + "\n")
    found = {item.id: item.confidence for item in explain_logs([str(log)])[0]}
    assert found.get("E07") == confidence


def test_rates_that_some_steps_print_are_no_times_of_steps(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(printed_times(set(range(20, STEPS + 1, 20)), 8.0, IN_MS)[1::2]) + "\n")
    assert "E07" not in {item.id for item in explain_logs([str(log)])[0]}


def test_times_that_grow_are_no_stalls_at_regular_distances(tmp_path: Path) -> None:
    def seconds(step: int) -> float:
        return 0.5 * 1.05**step * (8 if step > STEPS / 2 and step % 20 == 0 else 1)

    log = tmp_path / "train.log"
    log.write_text("\n".join(WITH_DATA.format(step=n, loss=2 - n / 500, s=seconds(n)) for n in range(1, STEPS + 1)) + "\n")
    assert [item.id for item in explain_logs([str(log)])[0]] == ["E10"]


def test_the_seconds_of_steps_by_their_rates() -> None:
    seconds = windows.seconds_of(PointSeries((4, 5, 6, 7), (1.0, 2.0, 3.0, 4.0), (0.01, 2.0, 0.0, 4.0)))
    assert list(seconds.steps) == [5, 6, 7]
    assert list(seconds.values) == [0.5, pytest.approx(math.nan, nan_ok=True), 0.25]
