"""The GPU pane: graphs of one or two devices, rows of more, in as many columns as needed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gputop.history.series import Series
from gputop.run_questions import GpuPast
from gputop.snapshot import DeviceUse, Problem
from gputop.tui.drawing.gpus.pane import draw_gpus, lines_wanted, places
from gputop.tui.drawing.gpus.past import area, recent_means, row_of_means, row_of_past
from gputop.tui.drawing.gpus.rows import row_layout, unmeasured
from gputop.tui.drawing.line import Line, cut, line, named_on, plain, text_width
from gputop.tui.state.view import View
from tests import samples
from tests.tui import dashboards


def texts(lines: tuple[Line, ...]) -> list[str]:
    return [plain(part) for part in lines]


def box(count: int, **settings: object) -> View:
    """GPUs that all work, for five minutes."""
    devices = tuple(samples.device(index, utilization_percent=90.0 + index % 8) for index in range(count))
    quiet = [
        samples.snapshot(tick * 10, interval_s=10.0, devices=devices, processes=(), runs=(), points=()) for tick in range(31)
    ]
    return dashboards.view_of(quiet, **settings)


def test_a_row_says_the_readings() -> None:
    row = texts(draw_gpus(dashboards.healthy(), 158, 22).lines)[0]
    assert row.split()[:3] == ["0", "r0", "98%"]
    for part in ("71.2/80G", "612/700W", "65°C", "SM 88 tc 41", "1980MHz"):
        assert part in row, part


@pytest.mark.parametrize("width", [76, 98, 118, 158])
def test_the_rule_names_the_columns_where_they_are(width: int) -> None:
    drawn = draw_gpus(dashboards.healthy(), width, 22)
    names, row = plain(drawn.heading), texts(drawn.lines)[0]
    power = "612/700W" if "612/700W" in row else "612W"
    for name, reading in (("util", "98%"), ("power", power), ("MHz", "1980MHz")):
        if name in names:
            assert names.index(name) + len(name) == row.index(reading) + len(reading), name
    assert names.index("SM tensor %") == row.index("SM ")
    assert names.index("memory") == row.index("━")
    assert ("MHz" in names) == ("1980MHz" in row)
    assert text_width(names) <= width
    assert "last " in names, "the history is named where it is"
    assert plain(drawn.subtitle) == ""


def test_names_leave_a_rule_whole_where_there_is_no_room() -> None:
    rule, names = line("─ GPUs " + "─" * 20), line("  ", "a title", "     ", "util", "    ", "last 5m")
    assert plain(named_on(rule, names, 7, 26)) == "─ GPUs ────── util ────────"
    assert plain(named_on(rule, line("          ", "power", " ", "MHz"), 7, 26)) == "─ GPUs ── power MHz ───────"
    assert named_on(rule, (), 7, 26) == rule


def test_the_parts_of_a_row_leave_in_their_order_and_bars_stay_long() -> None:
    before: set[str] = set()
    order: list[str] = []
    for width in range(20, 159):
        layout = row_layout(width, 2)
        kept = {name for name, cells in layout._asdict().items() if cells}
        assert before <= kept, "a wider row never shows less"
        order += sorted(kept - before)
        before = kept
        assert not 0 < layout.bar < 8
        assert not 0 < layout.past < 8
    assert order[-4:] == ["bar", "units", "clock", "links"]
    assert row_layout(158, 2).past == 60


@pytest.mark.parametrize(
    ("count", "size", "room", "most"),
    [
        (8, (78, 9), 40, 8),
        (16, (78, 9), 40, 8),
        (16, (158, 20), 40, 8),
        (64, (158, 17), 40, 16),
        (64, (78, 11), 21, 11),
        (64, (98, 14), 27, 13),
        (48, (78, 11), 21, 10),
        (8, (78, 5), 12, 4),
    ],
)
def test_every_gpu_is_visible(count: int, size: tuple[int, int], room: int, most: int) -> None:
    view = box(count)
    lines = draw_gpus(view, *size).lines
    assert len(lines) == most == lines_wanted(view, size[0], room)
    shown = places(view, *size)
    assert len(shown) == count
    for held in shown:
        words = plain(cut(lines[held.line], held.start, held.end)).replace("▸", " ").split()
        assert words[0] == str(held.device.index)
        assert f"{90 + held.device.index % 8}%" in words
    words = " ".join(texts(lines)).split()
    assert all(f"{90 + index % 8}%" in words for index in range(8))
    assert sum(word.endswith("%") for word in words) == count


def test_a_row_begins_with_what_was_recorded_with_the_run() -> None:
    devices = tuple(samples.device(index, utilization_percent=90.0) for index in range(8))
    seen = [samples.snapshot(1000 + tick * 10, interval_s=10.0, devices=devices) for tick in range(8)]
    view = dashboards.view_of(seen, density="compact")
    before = len(plain(row_past(view)).strip())
    assert 0 < before < 20
    times = tuple(samples.EPOCH + 5.0 * place for place in range(180))
    recorded = GpuPast("run-1", devices[0].uuid, 0, times, (50.0,) * 180, (1 << 30,) * 180, (600.0,) * 180)
    view.history.recall_gpus(view.run_id or "", [recorded])
    past = row_past(view)
    assert len(plain(past).strip()) > before, "the time before the screen was opened"
    assert plain(past).strip()[0] != plain(past).strip()[-1]
    assert len(plain(row_past(view, 1)).strip()) == before, "nothing was recorded of the others"


def row_past(view: View, index: int = 0) -> Line:
    (row, layout) = draw_gpus(view, 158, 8).lines[index], row_layout(158, 2, unmeasured(view.snapshot.devices))
    start = 1 + layout.label + 1 + layout.user + 1 + 4 + 1
    return cut(row, start, start + layout.past)


def test_the_power_is_shown_against_its_limit_where_there_is_room() -> None:
    devices = (samples.device(0, power_w=614.6, power_limit_w=700.0), samples.device(1, power_w=1012.0, power_limit_w=1200.0))
    unknown = (samples.device(2, power_w=None, power_limit_w=700.0), samples.device(3, power_w=89.0, power_limit_w=None))
    view = dashboards.view_of([samples.snapshot(devices=(*devices, *unknown))], density="compact")
    for width, wanted in ((158, ["615/700W", "1012/1200W", "N/A", "89W"]), (80, ["615W", "1012W", "N/A", "89W"])):
        layout = row_layout(width, 2, unmeasured(view.snapshot.devices))
        at = 1 + layout.label + 1 + (layout.user + 1) + 4 + 1 + sum(cells + 1 for cells in layout[2:6] if cells)
        rows = draw_gpus(view, width, 8).lines
        assert [plain(cut(row, at, at + layout.power)).strip() for row in rows] == wanted
    layout = row_layout(158, 2, without=("limit",))
    assert (layout.power, layout.bar) == (5, row_layout(158, 2).bar + 5)


def test_what_no_gpu_reports_takes_no_cell() -> None:
    few = dashboards.virtual()
    assert unmeasured(few.snapshot.devices) == {"units", "links", "clock", "limit"}
    layout = row_layout(158, 3, unmeasured(few.snapshot.devices))
    assert (layout.units, layout.links, layout.clock, layout.past) == (0, 0, 0, 60)
    idle = [samples.idle_device(index) for index in range(4)]
    assert unmeasured(idle) == {"links"}, "0 is a reading"


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_gpus_are_graphs(count: int) -> None:
    view = box(count)
    for width, height in ((158, 16), (78, 6)):
        drawn = draw_gpus(view, width, height)
        shown = "\n".join(texts(drawn.lines))
        assert len(drawn.lines) == height
        assert "90%" in shown
        assert "█" * 20 in shown
    assert all("█" not in plain(row) for row in draw_gpus(box(count, density="compact"), 78, 6).lines)


@pytest.mark.parametrize("count", [1, 2])
def test_a_graph_names_its_rank_and_the_traffic_of_its_links(count: int) -> None:
    links = {
        "nvlink_rx_bytes_per_s": 40e9,
        "nvlink_tx_bytes_per_s": 41e9,
        "pcie_rx_bytes_per_s": 1e9,
        "pcie_tx_bytes_per_s": 2e8,
    }
    devices = tuple(samples.device(index, **links) for index in range(count))
    ranks = tuple(samples.rank_process(index, (DeviceUse(devices[index].uuid),), count) for index in range(count))
    view = dashboards.view_of([samples.snapshot(devices=devices, processes=ranks)])
    head = draw_gpus(view, 158, 16).lines[0]
    assert f"r{count - 1}" in plain(head).split()
    assert {span.style for span in head if span.text == "r0"} == {"owner"}
    assert "  nv 81 pci 1.2" in plain(head)


def test_the_line_above_a_graph_keeps_what_matters_and_cuts_nothing() -> None:
    hot = [
        samples.device(index, temperature_c=91.0, sm_clock_mhz=870.0, throttle_reasons=("hw_thermal_slowdown",))
        for index in range(2)
    ]
    view = dashboards.view_of([samples.snapshot(devices=tuple(hot), processes=(), runs=(), points=())])
    narrow = plain(draw_gpus(view, 78, 6).lines[0])
    assert narrow.split("  ")[:3] == ["0", "98%", "91 °C"]
    assert "…" not in narrow
    assert "slowed by heat" in plain(draw_gpus(view, 110, 6).lines[0])


def test_the_past_is_even_where_the_work_is() -> None:
    assert plain(row_of_past([0.0, 0.5, 0.88, 0.97, 1.0, None])) == "▁▄▇▇▇ "
    styles = [span.style for span in row_of_past([0.0, 0.1, 0.3, 0.6, 0.9])]
    assert styles == ["track", "work0", "work1", "work2", "work3"]
    assert plain(row_of_past([0.0, 1.0, None], ascii_only=True)) == "_# "


def test_an_area_never_fills_its_top_row() -> None:
    drawn = texts(tuple(area([1.0, 0.5, 0.0, None], 2)))
    assert drawn == ["▇   ", "██▁ "]


def test_a_second_line_names_who_uses_a_gpu() -> None:
    lines = draw_gpus(dashboards.healthy(density="full"), 76, 22).lines
    assert len(lines) == 16
    assert "resnet18-ddp rank 0 · SM 88% · tensor 41%" in "\n".join(texts(lines))


def test_trouble_is_shown_in_words() -> None:
    view = dashboards.troubled()
    rows = texts(draw_gpus(view, 110, 22).lines)
    shown = "\n".join(rows)
    assert "stale the driver has not answered for 12s" in shown
    assert rows[-1] == "GPU 1 has fallen off the bus. Restart the machine.", "the row is too short for it"
    assert "└       N/A MIG 6:1 3g.40gb" in shown
    wide = draw_gpus(dashboards.troubled(density="full"), 150, 22).lines
    assert "lost GPU 1 has fallen off the bus. Restart the machine." in "\n".join(texts(wide))
    styles = {(span.text.strip(), span.style) for row in wide for span in row}
    assert {("hot 1980", "bad"), ("86°C", "bad"), ("98%", "bad"), ("cap 1980", "dim")} <= styles
    unknown = next(row for row in texts(wide) if row.strip().startswith("5"))
    assert set(unknown.split()) == {"5", "N/A"}


@pytest.mark.parametrize("density", ["compact", "full"])
def test_room_is_asked_for_all_of_a_long_sentence_about_a_gpu(density: str) -> None:
    words = "The driver does not answer, or answers with errors, and " * 3 + "nothing is known about it."
    lost = samples.device(1, state="lost", problem=Problem("nvml", words, "Restart the machine."))
    devices = (samples.device(0), lost, *(samples.device(index) for index in (2, 3)))
    view = dashboards.view_of([samples.snapshot(devices=devices)], density=density)
    rows = texts(draw_gpus(view, 98, 22).lines)
    assert rows[4 if density == "compact" else 8].startswith("GPU 1: The driver does not")
    assert rows[-1].endswith("Restart the machine.")
    assert lines_wanted(view, 98, 22) == len(rows) > 5


def test_no_column_moves_when_the_second_reading_brings_the_rates() -> None:
    rates = ("sm_activity_percent", "tensor_activity_percent", "nvlink_rx_bytes_per_s", "pcie_rx_bytes_per_s")
    whole = samples.snapshot(devices=[replace(samples.device(0), **dict.fromkeys(rates, 60.0))] * 4)
    none = replace(whole, devices=tuple(replace(device, **dict.fromkeys(rates)) for device in whole.devices))
    first = replace(none, host=replace(whole.host, cpu_percent=None))
    headings = [plain(draw_gpus(dashboards.view_of([seen]), 158, 22).heading) for seen in (first, whole, none)]
    assert headings[0] == headings[1] != headings[2]
    assert "NVLink" in headings[0]


def test_involved_devices_are_marked() -> None:
    rows = texts(draw_gpus(dashboards.one_gpu(), 76, 22).lines)
    assert [row[0] for row in rows[:8]] == ["▸", *" " * 7]


def test_a_finding_about_every_device_marks_none() -> None:
    view = dashboards.one_gpu()
    every = replace(view.findings[0], devices=tuple(device.uuid for device in view.snapshot.devices))
    rows = texts(draw_gpus(replace(view, findings=(every, *view.findings[1:])), 76, 22).lines)
    assert [row[0] for row in rows[:8]] == [" "] * 8


def test_virtual_gpus_are_named_and_explained() -> None:
    drawing = draw_gpus(dashboards.virtual(), 76, 20)
    assert plain(drawing.title) == "GPUs · 2 virtual"
    words = " ".join(" ".join(texts(drawing.lines)).split())
    assert "v0 0%" in words
    assert "0.0G" in words
    assert "The NVIDIA driver is not loaded. Load it with modprobe nvidia." in words
    assert "2 virtual GPUs to try everything with: CPU work, measured. Press l to launch a demo." in words


def test_the_first_steps_go_once_a_run_is_live() -> None:
    view = dashboards.virtual()
    live = replace(view, snapshot=replace(view.snapshot, runs=(samples.run(),)))
    shown = " ".join(texts(draw_gpus(live, 76, 20).lines))
    assert "driver" not in shown
    assert "to try everything with" not in shown


def test_no_device_shows_the_problem() -> None:
    base = samples.snapshot(devices=(), processes=(), runs=(), points=())
    problem = Problem("driver_mismatch", "Driver and library differ.", "Reboot.")
    view = dashboards.view_of([replace(base, host=replace(base.host, problem=problem))])
    assert texts(draw_gpus(view, 76, 20).lines) == ["Driver and library differ.", "Reboot."]


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("means", [[], [None], [3.0], [None, 50.0, 50.0], [80.0, 80.0, 81.0], [99.0, 0.0, None, math.nan]])
def test_a_row_of_means_is_that_of_their_shares(means: list[float | None], ascii_only: bool) -> None:
    shares = [None if mean is None else mean / 100 for mean in means]
    assert row_of_means(means, ascii_only) == row_of_past(shares, ascii_only)


def test_recent_means() -> None:
    series = Series()
    for second in range(30):
        series.append(float(second), float(second // 10))
    assert recent_means(series, 30.0, 10.0, 4) == [None, 0.0, 1.0, 2.0]
    assert recent_means(None, 30.0, 10.0, 2) == [None, None]


@pytest.mark.parametrize("limit", [8, 20, 4096])
def test_recent_means_are_those_of_the_buckets_however_coarse_they_have_become(limit: int) -> None:
    series = Series(limit)
    for second in range(200):
        series.append(float(second), float(second % 17))
        end = (second // 10 + 1) * 10.0
        columns: dict[int, list[tuple[float, int]]] = {}
        for bucket in series.buckets:
            columns.setdefault(int((bucket.x_first + bucket.x_last) / 2 // 10), []).append((bucket.total, bucket.count))
        sums = {column: (sum(total for total, _ in held), sum(count for _, count in held)) for column, held in columns.items()}
        newest = int(end // 10) - 1
        for column, mean in zip(range(newest - 5, newest + 1), recent_means(series, end, 10.0, 6), strict=True):
            total, count = sums.get(column, (0.0, 0))
            assert mean == (total / count if count else None)
