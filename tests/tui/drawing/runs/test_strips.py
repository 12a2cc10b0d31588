"""The rows below a run's chart: on its axis, whatever that is, with the value at its cursor."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.history.history import History
from gputop.history.series import Series
from gputop.run_questions import GpuPast
from gputop.snapshot import Points
from gputop.tui.drawing.large_chart import LABEL_COLUMNS, Chart
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.runs.overlay import Layer, layers_of
from gputop.tui.drawing.runs.strips import SUBJECTS, Strip, devices_of, first_subject, label_of, short, strip_lines
from gputop.tui.drawing.runs.time_line import columns_of, means
from gputop.tui.state.view import View
from tests import samples

START = samples.EPOCH - 600
STEPS = tuple(range(300))
CELLS = 60


def view_of_two_ranks() -> View:
    """Two ranks, two seconds a step; rank 1 waits in the second half, when GPU 1 is hardly busy."""
    history = History()
    for second in range(0, 600, 2):
        busy = 95.0 if second < 300 else 10.0
        devices = (samples.device(0), samples.device(1, utilization_percent=busy, power_w=busy * 7))
        history.observe(samples.snapshot(second, time=START + second, devices=devices, points=(), runs=(samples.run(2),)))
    found = []
    for rank in range(2):
        waits = [0.2 if rank and step >= 150 else 0.02 for step in STEPS]
        metrics = {
            "loss": [3.0 - step / 200 + rank for step in STEPS],
            "step_s": [0.5] * 300,
            "samples_per_s": [100.0] * 300,
            "phase/data": [0.05] * 300,
            "phase/forward": [0.1] * 300,
            "phase/backward": [0.3] * 300,
            "phase/optimizer": [0.05] * 300,
            "phase/communication": waits,
        }
        times = tuple(START + 2.0 * step for step in STEPS)
        found += [Points("run-1", rank, name, STEPS, times, tuple(values)) for name, values in metrics.items()]
    history.recall(found)
    latest = {"step_s": 0.5, "phase/data": 0.05, "phase/forward": 0.1, "phase/backward": 0.3, "phase/communication": 0.2}
    run = samples.run(2)
    run = replace(run, ranks=tuple(replace(rank, metrics=latest) for rank in run.ranks))
    return View(samples.snapshot(points=(), runs=(run,)), history)


def drawn(kind: str = "time", subject: str = "wait", **changes: object) -> list[str]:
    view = view_of_two_ranks()
    run = view.snapshot.runs[0]
    layer = layers_of([(run, "accent")], "loss", kind, view.history)[0]
    start, end = {"time": (0.0, 598.0), "step": (0.0, 299.0), "clock": (START, START + 598.0)}[kind]
    chart = replace(Chart(CELLS + LABEL_COLUMNS + 1, 20, (), start, end, kind), **changes)  # type: ignore[arg-type]
    devices = devices_of(run, view, tuple(samples.device(index).uuid for index in range(2)))
    return [plain(line) for line in strip_lines(layer, chart, view, devices, subject, "loss")]


def test_the_power_of_many_gpus_is_in_kilowatts() -> None:
    view = view_of_two_ranks()
    times = tuple(START + 2.0 * second for second in range(300))
    pasts = [GpuPast("run-1", f"GPU-{at}", at, times, (90.0,) * 300, (1 << 30,) * 300, (610.0,) * 300) for at in range(8)]
    view.history.recall_gpus("run-1", pasts)
    run = view.snapshot.runs[0]
    layer = layers_of([(run, "accent")], "loss", "time", view.history)[0]
    chart = Chart(CELLS + LABEL_COLUMNS + 1, 20, (), 0.0, 598.0, "time")
    gpus = tuple(samples.device(at, uuid=f"GPU-{at}") for at in range(8))
    rows = [plain(row) for row in strip_lines(layer, chart, view, gpus, "wait", "loss")]
    assert [row[:9].rstrip() for row in rows if "kW" in row] == ["kW   4.9"]


def test_an_ended_run_shows_what_was_recorded_of_its_gpus() -> None:
    view = view_of_two_ranks()
    history = History()
    history.recall([Points("run-1", 0, "loss", STEPS, tuple(START + 2.0 * step for step in STEPS), (1.0,) * 300)])
    history.observe(samples.snapshot(points=(), runs=(), devices=(samples.device(0),)))
    times = tuple(START + 5.0 * turn for turn in range(120))
    nobody, gone = samples.device(0).uuid, "GPU-gone"
    history.recall_gpus(
        "run-1",
        [
            GpuPast("run-1", nobody, 0, times, (80.0,) * 120, (1 << 30,) * 120, (100.0,) * 120),
            GpuPast("run-1", gone, 5, times, (40.0,) * 60 + (None,) * 60, (1 << 30,) * 120, (300.0,) * 120),
            GpuPast("run-1", "GPU-cut", 6, times, (1.0,), (1,), (1.0,)),
            GpuPast("another", "GPU-other", 7, times, (40.0,) * 120, (1,) * 120, (300.0,) * 120),
        ],
    )
    run = replace(view.snapshot.runs[0], state="finished", ranks=(replace(view.snapshot.runs[0].ranks[0], facts={}),))
    view = replace(view, snapshot=samples.snapshot(points=(), runs=(run,), devices=(samples.device(0),)), history=history)
    layer = layers_of([(run, "accent")], "loss", "time", history)[0]
    chart = Chart(CELLS + LABEL_COLUMNS + 1, 20, (), 0.0, 598.0, "time")
    devices = devices_of(run, view, ())
    assert [(device.index, device.uuid) for device in devices] == [(0, nobody), (5, gone)]
    lines = [plain(line) for line in strip_lines(layer, chart, view, devices, "wait", "loss")]
    assert [line[:9] for line in lines[2:]] == ["GPU0 80% ", "GPU5 40% ", "power 400"]
    assert lines[3][9:39].strip()
    assert not lines[3][41:].strip()


@pytest.mark.parametrize("kind", ["time", "step", "clock"])
def test_rows_line_up_with_the_chart_on_every_axis(kind: str) -> None:
    lines = drawn(kind)
    assert [line[:9] for line in lines] == [
        *("one step ", "500 ms   ", "GPU0 98% ", "GPU1 10% ", "smp/s 200", "kW  0.68 "),
        *(" " * 9, "r0    4% ", "r1   40% "),
    ]
    gpu = lines[3][9:]
    assert set(gpu[:29]) == {"▇"}
    assert set(gpu[31:]) == {"▁"}
    assert set(lines[8][9:38]) == {"▁"}
    assert lines[8][45] in "▃▄"
    assert lines[1][9:] == "fwd 20%  bwd 20%  wait 40%   ranks wait for one another"
    assert {len(line) for line in lines[2:6]} == {9 + CELLS}


def test_the_cursor_reads_every_row() -> None:
    lines = drawn(cursor=100.0)
    at = 9 + int(100.0 / 598.0 * CELLS)
    assert [line[at] for line in lines[2:6]] == ["│"] * 4
    assert lines[3].startswith("GPU1 95% ")
    assert "bwd 56%" in lines[1]
    assert "it computes: the backward pass takes most" in drawn(cursor=100.0, width=120)[1]
    letters = drawn(cursor=100.0, ascii=True)
    assert all(line.isascii() for line in letters)


def test_rank_rows_show_what_is_chosen_on_one_scale() -> None:
    assert "step time by rank, 0 to 500 ms" in drawn(subject="step time")[6]
    loss = drawn(subject="loss")
    assert "loss by rank, 1.51 to 3.99" in loss[6]
    assert loss[8][9] == "▇"
    view = view_of_two_ranks()
    run = view.snapshot.runs[0]
    seen = [first_subject(run, view.history)]
    for _ in range(3):
        seen.append(first_subject(run, view.history, after=seen[-1]))
    assert seen == [*SUBJECTS, SUBJECTS[0]]
    assert first_subject(samples.run(run_id="bare"), view.history) == "loss"


def test_a_sum_is_unknown_while_a_part_of_it_is() -> None:
    view = view_of_two_ranks()
    view.history.recall(())
    run = replace(view.snapshot.runs[0], run_id="half")
    times = tuple(START + 2.0 * step for step in STEPS)
    view.history.recall(
        (
            Points("half", 0, "loss", STEPS, times, (1.0,) * 300),
            Points("half", 0, "samples_per_s", STEPS, times, (100.0,) * 300),
            Points("half", 1, "samples_per_s", STEPS[:150], times[:150], (100.0,) * 150),
        )
    )
    layer = layers_of([(run, "accent")], "loss", "step", view.history)[0]
    chart = Chart(CELLS + 9, 20, (), 0.0, 299.0, "step")
    (speed,) = [plain(line) for line in strip_lines(layer, chart, view, (), "wait", "loss") if "smp/s" in plain(line)]
    assert set(speed[9:38]) == {"▇"}
    assert set(speed[42:]) == {" "}


def test_a_run_of_another_machine_has_no_rows_of_gpus() -> None:
    view = view_of_two_ranks()
    run = replace(view.snapshot.runs[0], created_at=START - 1e6, run_id="old")
    view.history.recall((Points("old", 0, "loss", (0, 1), (START - 1e6, START - 1e6 + 9), (1.0, 2.0)),))
    layer: Layer = layers_of([(run, "accent")], "loss", "time", view.history)[0]
    lines = strip_lines(layer, Chart(69, 20, (), 0.0, 9.0), view, view.snapshot.devices, "loss", "loss")
    assert not any("GPU" in plain(line) for line in lines)


VALUES = st.lists(st.tuples(st.floats(0, 100), st.floats(-1e3, 1e3) | st.just(math.nan)), max_size=60)


@given(VALUES, st.integers(1, 40))
def test_means_are_those_of_the_values_between_the_edges(values: list[tuple[float, float]], count: int) -> None:
    series = Series()
    for x, value in values:
        series.append(x, value)
    edges = [100 * n / count for n in range(count + 1)]
    found = means(series, edges)
    assert len(found) == count
    for place, mean in enumerate(found):
        last = place == count - 1
        held = [value for x, value in values if math.isfinite(value) and edges[place] <= x and (x < edges[place + 1] or last)]
        if held:
            assert mean == pytest.approx(sum(held) / len(held), abs=1e-6)
        else:
            assert mean is None or any(mean == other for other in found[:place])


def test_columns_of_steps_know_when_they_were() -> None:
    view = view_of_two_ranks()
    layer = layers_of([(view.snapshot.runs[0], "accent")], "loss", "step", view.history)[0]
    columns = columns_of(layer, 0.0, 299.0, 2)
    assert columns is not None
    assert columns.times == pytest.approx((START, START + 299.0, START + 598.0))
    assert columns.only(1).steps == (149.5, 299.0)


@pytest.mark.parametrize(
    ("value", "text"), [(0.523, "0.52"), (7.06, "7.1"), (640.4, "640"), (12_340.0, "12k"), (3360.0, "3.4k"), (5e9, "5G")]
)
def test_short_numbers(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(("value", "shown"), [(200.0, "smp/s 200"), (5590.0, "smp 5.6k ")])
def test_a_long_value_leaves_its_label_whole_words(value: float, shown: str) -> None:
    label, text = label_of(Strip("smp/s", [value], value), value)
    assert label + text == shown


@pytest.mark.parametrize(("value", "shown"), [(0.99, "1%"), (62.4, "62%")])
def test_a_percentage_is_whole_and_keeps_its_sign(value: float, shown: str) -> None:
    """It was "GPU1 0.99" for 1%."""
    label, text = label_of(Strip("GPU1", [value], 100.0, "%"), value)
    assert (label.strip(), text.strip()) == ("GPU1", shown)
