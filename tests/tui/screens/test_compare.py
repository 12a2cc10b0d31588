"""How jobs at 1, 2, 4 GPUs compare: the table and the chart, and a real series against its journals."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gputop.history.history import History
from gputop.jobs import series, store
from gputop.recipes import catalogue
from gputop.snapshot import Device, Points, Rank, Run, Snapshot
from gputop.tracking.reader.runs import RunReader
from gputop.tui.drawing import comparison
from gputop.tui.screens import compare
from gputop.tui.screens.compare import CompareScreen
from gputop.tui.state.view import View
from tests import samples
from tests.jobs.printed import printed_lines
from tests.tracking.kit import Home, eventually, home, read_all
from tests.tui.kit import SIZES, ScreenApp, text_of

assert home


@dataclass(frozen=True)
class AJob:
    id: str
    device_uuids: tuple[str, ...]
    started_at: float
    name: str = "lenet-ddp"
    state: str = "finished"
    recipe_id: str | None = "ddp"
    values: Mapping[str, Any] = field(default_factory=lambda: {"model": "lenet", "lr": "0.1"})
    ended_at: float | None = None
    exit_code: int | None = 0
    signal: str | None = None
    stop_asked: bool = False
    active: bool = False
    problem: str | None = None
    elsewhere: str = ""


SPEEDS = {1: 1000.0, 2: 1800.0, 4: 2400.0}


def scaling() -> tuple[list[AJob], Snapshot, History]:
    """Jobs at 1, 2 and 4 GPUs, each rank with its share of the speed, and three epochs of 10 s, the first of 15 s."""
    found, runs, points = [], [], []
    for count, speed in SPEEDS.items():
        uuids = tuple(samples.device(index).uuid for index in range(count))
        found.append(AJob(f"job-{count}", uuids, 100.0 + count))
        metrics = {"samples_per_s": speed / count, "loss": 0.5 / count, "accuracy": 0.9, "lr": 0.1}
        ranks = tuple(Rank(rank, metrics=metrics, state="finished") for rank in range(count))
        config = {"batch_size": 64, "scale_batch": "per-gpu"}
        runs.append(Run(f"job-{count}", "lenet", job_id=f"job-{count}", state="finished", config=config, ranks=ranks))
        for rank in range(count):
            steps = tuple(range(40))
            speeds = tuple(1.0 if step < 10 else speed / count for step in steps)  # the warm-up does not count
            points.append(Points(f"job-{count}", rank, "samples_per_s", steps, tuple(map(float, steps)), speeds))
            losses = tuple(2.0 / (1 + count * step) for step in steps)
            points.append(Points(f"job-{count}", rank, "loss", steps, tuple(map(float, steps)), losses))
            epochs = tuple(0.0 if step < 15 else 1.0 if step < 25 else 2.0 for step in steps)
            points.append(Points(f"job-{count}", rank, "epoch", steps, tuple(map(float, steps)), epochs))
    snapshot = samples.snapshot(runs=tuple(runs), points=tuple(points))
    history = History()
    history.observe(snapshot)
    return found, snapshot, history


def test_figures() -> None:
    found, snapshot, history = scaling()
    others = [AJob("other", (samples.device(0).uuid,), 1.0, values={"model": "resnet18"})]
    reached = comparison.reached_by([*others, *found], found[1], snapshot, history)
    assert [item.gpus for item in reached] == [1, 2, 4]
    assert [item.speed for item in reached] == pytest.approx([1000.0, 1800.0, 2400.0])
    assert [item.speed_up for item in reached] == pytest.approx([1.0, 1.8, 2.4])
    assert [item.efficiency for item in reached] == pytest.approx([1.0, 0.9, 0.6])
    assert [item.epoch_s for item in reached] == pytest.approx([10.0] * 3)
    assert [item.batch for item in reached] == [64.0, 128.0, 256.0]


def test_an_unknown_value_is_not_a_number() -> None:
    _, snapshot, history = scaling()
    lost = [AJob("nowhere", (samples.device(0).uuid,), 1.0)]
    (reached,) = comparison.reached_by(lost, lost[0], snapshot, history)
    assert reached == comparison.Reached(lost[0], 1)
    (_, row) = comparison.table([reached], snapshot, 140, True)
    assert "0.0" not in "".join(span.text for span in row)
    assert "No job has reported" in comparison.chart([reached], 80, False)[0][0].text


@pytest.mark.parametrize(("loss", "text"), [(0.00035123, "0.000351"), (1.2345e-120, "1.2e-120"), (-1.2345e-5, "-1.2e-05")])
def test_a_small_loss_is_never_cut(loss: float, text: str) -> None:
    job = AJob("small", (samples.device(0).uuid,), 1.0)
    (_, row) = comparison.table([comparison.Reached(job, 1, loss=loss)], samples.snapshot(), 140, True)
    assert f" {text} " in "".join(span.text for span in row)


@pytest.mark.parametrize("size", SIZES)
async def test_the_screen(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "POLL_S", 1e6)  # no job of these is in the store
    found, snapshot, history = scaling()
    view = View(snapshot, history)
    app = ScreenApp(CompareScreen(found, "job-2", view), view)  # type: ignore[arg-type]
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        app.give(view)
        await pilot.pause()
        text = text_of(app)
        for words in ("1 000", "1 800", "2 400", "1.80x", "2.40x", "4 GPUs", "90%", "ideal, if no GPU waited"):
            assert words in text, words
        assert "━ 1 GPU  ━ 2 GPUs  ━ 4 GPUs" in text, "the curves' legend"
        assert re.search(r"4 GPUs  ━+─+┃ +2\.40x", text), "a thin bar: full blocks would melt into a slab with the row above"
        blank = sum(not line.strip() for line in text.splitlines())
        assert blank <= 2, text


async def test_a_low_screen_keeps_the_table_and_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "POLL_S", 1e6)
    found, snapshot, history = scaling()
    view = View(snapshot, history)
    app = ScreenApp(CompareScreen(found, "job-2", view), view)  # type: ignore[arg-type]
    async with app.run_test(size=(80, 16)) as pilot:
        await pilot.pause()
        app.give(view)
        await pilot.pause()
        assert "ideal, if no GPU waited" in text_of(app)
        assert "━ 2 GPUs" not in text_of(app)


RANKS = """
import os, subprocess, sys
import gputop
count = int(sys.argv[1])
if "RANK" not in os.environ:
    worlds = [{"WORLD_SIZE": str(count), "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env=os.environ | world) for world in worlds]
    sys.exit(max(rank.wait() for rank in ranks))
run, rank = gputop.init(config={"batch_size": 32, "scale_batch": "per-gpu"}), int(os.environ["RANK"])
for step in range(24):
    run.log(step=step, loss=2 / (1 + step) + rank, samples_per_s=1.0 if step < 6 else 90.0 + step - 20 * rank)
"""
"""A job with journals as the recipe's, without five imports of torch; tests/demos/test_training.py has what the recipe logs."""


def test_a_real_series_is_shown_as_its_journals_record_it(home: Home, tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    devices = [Device(index, f"virtual-{index}", "virtual GPU", "virtual") for index in range(2)]
    recipe = catalogue.find("ddp")
    launches = [catalogue.prepare(recipe, devices[:count], {"batch_size": "32"}) for count in (1, 2)]
    commands = [(sys.executable, str(tmp_path / "ranks.py"), str(count)) for count in (1, 2)]
    started = series.start([replace(launch, argv=argv) for launch, argv in zip(launches, commands, strict=True)])
    ended = eventually(
        lambda: found if not any((found := [store.find(job.id) for job in started])[n].active for n in (0, 1)) else None,
        "both jobs end",
        90.0,
    )
    assert [job.state for job in ended] == ["finished", "finished"], [printed_lines(job.id) for job in ended]
    reader, history = RunReader(home.runs), History()
    update = reader.poll()
    reader.close()
    snapshot = replace(samples.snapshot(runs=update.runs, points=update.points), time=time.time())
    history.observe(snapshot)
    one, two = comparison.reached_by(ended, ended[0], snapshot, history)
    expected = {}
    for job in ended:
        archives = sorted((home.runs / job.id).glob("rank-*.gpr"))
        assert len(archives) == len(job.device_uuids)
        speeds = [[value for _, value in read_all(archive).series["samples_per_s"]] for archive in archives]
        settled = [rank[int(len(rank) * 0.25) :] for rank in speeds]
        expected[job.id] = sum(math.fsum(rank) / len(rank) for rank in settled)
    assert one.speed == pytest.approx(expected[ended[0].id])
    assert two.speed == pytest.approx(expected[ended[1].id])
    assert two.speed_up == pytest.approx(expected[ended[1].id] / expected[ended[0].id])
    assert two.efficiency == pytest.approx(two.speed_up / 2)  # type: ignore[operator]
    assert (one.batch, two.batch) == (32.0, 64.0)
    final = {
        job.id: [read_all(a).series["loss"][-1][1] for a in sorted((home.runs / job.id).glob("rank-*.gpr"))] for job in ended
    }
    assert two.loss == pytest.approx(math.fsum(final[ended[1].id]) / 2)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_one_number_of_gpus_alone_has_no_speed_up_but_that_of_one(number: int) -> None:
    found, snapshot, history = scaling()
    (item,) = comparison.reached_by([found[number]], found[number], snapshot, history)
    assert item.speed == pytest.approx(SPEEDS[item.gpus])
    assert (item.speed_up, item.efficiency) == ((1.0, 1.0) if item.gpus == 1 else (None, None))
