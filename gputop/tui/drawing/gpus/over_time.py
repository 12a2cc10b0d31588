"""One GPU's readings over a stretch of time, each as an area graph under a line with its numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gputop import units
from gputop.history.series import Series
from gputop.snapshot import Device
from gputop.tui.drawing.gpus.past import RECORDED_HOLD_S, area, column_end
from gputop.tui.drawing.gpus.rows import is_hot, memory_text
from gputop.tui.drawing.gpus.slowed import slowed_strip, was_slowed
from gputop.tui.drawing.line import Line, Span, beside, fit, line, spread, width
from gputop.tui.state.view import View

SPANS: tuple[tuple[str, float | None], ...] = (("1 min", 60.0), ("5 min", 300.0), ("30 min", 1800.0), ("whole run", None))
"""The periods that a user can choose, in seconds; None: the whole run, to the extent that it was watched or recorded."""
RECORDED_HOLD_SHARE = 1 / 200
"""A recorded reading is valid for three of the recorder's intervals, which grow with the run: 5 s, and a 700th of its age."""
HOLD_INTERVALS = 3
"""A reading is valid for this many intervals; then the device counts as stale."""
GRAPH_LINES_MIN, GRAPH_LINES_MAX = 3, 18
TWO_COLUMNS_CELLS = 70
"""From this width on, graphs are in two columns."""
GAP = 2
"""Cells between the columns."""


class Graph(NamedTuple):
    """A graph: its name, the field of ``Device`` that it draws, and the style of its area ("": by height)."""

    name: str
    reading: str
    style: str = ""


GRAPHS = (
    Graph("utilization", "utilization_percent"),
    Graph("memory", "memory_used_bytes", "memory"),
    Graph("power", "power_w"),
    Graph("temperature", "temperature_c"),
    Graph("SM clock", "sm_clock_mhz"),
    Graph("SM activity", "sm_activity_percent"),
    Graph("tensor activity", "tensor_activity_percent"),
    Graph("DRAM activity", "dram_activity_percent"),
    Graph("NVLink", "nvlink_bytes_per_s"),
    Graph("PCIe", "pcie_bytes_per_s"),
)
"""The most important first: a graph that does not fit is left out, and its number appears in the text."""


LINKS = ("nvlink_bytes_per_s", "pcie_bytes_per_s")
"""Readings without a known limit: their graphs reach up to a round number above the greatest value."""


class Stretch(NamedTuple):
    """The time that the graphs show, in seconds since the epoch; its newest column is still being filled."""

    start: float
    end: float


def stretch_of(view: View, span_s: float | None, columns: int) -> Stretch:
    """Return the period of ``span_s`` seconds up to now; None: since the chosen run began, or since it has been known.

    Uses what was recorded with the run, else what this screen saw.
    """
    now = view.snapshot.time
    if span_s is None:
        began = view.history.started_at
        run = view.run
        if run is not None and run.created_at is not None and began is not None:
            began = run.created_at if view.history.gpus_of(run.run_id) else max(began, run.created_at)
        span_s = max(SPANS[0][1] or 0.0, now - began) if began is not None else SPANS[1][1] or 0.0
    seconds = span_s / max(1, columns)
    # Columns end at multiples of their length, so that a graph moves only once a column.
    end = column_end(now, seconds) if math.isfinite(now) and seconds > 0 else now
    return Stretch(end - span_s, end)


def known_graphs(view: View, device: Device) -> list[Graph]:
    """Return the graphs of the readings that are or were known."""
    return [
        graph
        for graph in GRAPHS
        if getattr(device, graph.reading) is not None or view.history.device(device.uuid, graph.reading) is not None
    ]


class Grid(NamedTuple):
    """Which graphs are drawn, side by side in columns of ``cells``, each with its heading in ``lines`` lines."""

    graphs: tuple[Graph, ...]
    columns: int
    cells: int
    lines: int


def grid_of(view: View, device: Device, cells: int, height: int) -> Grid:
    """Return what fits into ``height`` lines: the most important graphs, and a line for the time below them."""
    graphs = known_graphs(view, device)
    columns = 2 if cells >= TWO_COLUMNS_CELLS and len(graphs) > 1 else 1
    rows = min(math.ceil(len(graphs) / columns), max(0, height - 1) // GRAPH_LINES_MIN)
    # A strip below takes a line from the graphs, but removes no graph: without a spare line, the text below scrolls by one
    # more.
    each = (height - 1 - was_slowed(view, device)) // rows if rows else 0
    each = min(GRAPH_LINES_MAX, max(GRAPH_LINES_MIN, each)) if rows else 0
    return Grid(tuple(graphs[: rows * columns]), columns, (cells - GAP * (columns - 1)) // columns, each)


def draw_over_time(view: View, device: Device, grid: Grid, span: int) -> list[Line]:
    """Return the graphs over the period at index ``span`` of ``SPANS``, and the time below them; nothing without graphs."""
    if not grid.graphs:
        return []
    stretch = stretch_of(view, SPANS[span][1], grid.cells)
    lines: list[Line] = []
    for start in range(0, len(grid.graphs), grid.columns):
        row = grid.graphs[start : start + grid.columns]
        drawn = [draw_graph(view, device, graph, stretch, grid.cells, grid.lines) for graph in row]
        lines.extend(beside(drawn, grid.cells, GAP))
    below = [time_axis(stretch, grid.cells)]
    if was_slowed(view, device):
        strip, causes = slowed_strip(view, device, stretch.start, stretch.end, grid.cells)
        below = [strip, time_axis(stretch, grid.cells, causes)]
    return [*lines, *beside([below] * grid.columns, grid.cells, GAP)]


def draw_graph(view: View, device: Device, graph: Graph, stretch: Stretch, cells: int, height: int) -> list[Line]:
    """Return the line with a reading's numbers and its graph, together ``height`` lines."""
    series = view.history.device(device.uuid, graph.reading)
    top = _top(device, graph.reading)
    hold_s = HOLD_INTERVALS * view.snapshot.interval_s
    means = held_means(series, stretch.start, stretch.end, cells, hold_s)
    recorded = view.history.recorded(view.run_id, device.uuid, graph.reading) if view.run_id is not None else None
    if recorded is not None:
        hold_s = max(RECORDED_HOLD_S, (stretch.end - stretch.start) * RECORDED_HOLD_SHARE)
        past = held_means(recorded, stretch.start, stretch.end, cells, hold_s)
        means = [before if seen is None else seen for seen, before in zip(means, past, strict=True)]
    if graph.reading in LINKS:
        top = _round_above(max((mean for mean in means if mean is not None), default=0.0))
    shares = [None if mean is None or top is None else mean / top for mean in means]
    form = units.gib if graph.reading == "memory_used_bytes" else _gigabytes if graph.reading in LINKS else units.number
    extremes = min_mean_max(form, [found for found in (series, recorded) if found is not None], stretch)
    numbers = line((_now(device, graph.reading), _style(device, graph.reading)))
    head = heading(graph.name, numbers, extremes, cells, view.settings.ascii)
    return [head, *area(shares, height - 1, view.settings.ascii, graph.style)]


def heading(name: str, numbers: Line, past: str, cells: int, ascii_only: bool) -> Line:
    """Return the line above a graph: its name, a rule, the current value, and, if there is room, those of the past."""
    if past and len(name) + width(numbers) + len(past) + 6 <= cells:
        numbers = (*numbers, Span(f"  {past}", "dim"))
    fill = max(1, cells - len(name) - width(numbers) - 2)
    return fit((Span(name, "title"), Span(f" {('-' if ascii_only else '─') * fill} ", "track"), *numbers), cells)


def held_means(series: Series | None, start: float, end: float, count: int, hold_s: float) -> list[float | None]:
    """Return the mean of each of ``count`` equal columns; a value holds until the next, but at most for ``hold_s`` seconds.

    None if nothing is known.
    """
    if series is None or count <= 0 or not (math.isfinite(start) and math.isfinite(end) and start < end):
        return [None] * max(0, count)
    totals, counts = [0.0] * count, [0] * count
    scale = count / (end - start)
    following = end
    for bucket in reversed(series.buckets):
        until = min(bucket.x_last + hold_s, max(following, bucket.x_last), end)
        following = bucket.x_first
        if bucket.x_first >= end or not bucket.count:
            continue
        if until < start:
            break
        first = min(count - 1, max(0, int((bucket.x_first - start) * scale)))
        last = min(count - 1, max(first, math.ceil((until - start) * scale) - 1))
        for column in range(first, last + 1):
            totals[column] += bucket.mean
            counts[column] += 1
    return [total / number if number else None for total, number in zip(totals, counts, strict=True)]


def min_mean_max(form: Callable[[float], str], sources: Sequence[Series], stretch: Stretch) -> str:
    """Return "min 48 mean 77 max 98" for the period, each as ``form`` writes it; nothing if no value is known.

    This screen's own readings come first among ``sources``: the others count only for the time before them.
    """
    if not (math.isfinite(stretch.start) and math.isfinite(stretch.end) and stretch.start < stretch.end):
        return ""
    end, lows, highs, total, seconds = stretch.end, [], [], 0.0, 0.0
    for series in sources:
        span = series.span()
        whole = series.columns(stretch.start, end, 1)[0] if stretch.start < end else None
        if span is None or whole is None or not whole.count:
            continue
        # Sources have different intervals: each counts for as long as it covers.
        covers = max(1e-9, min(end, span[1]) - max(stretch.start, span[0]))
        lows.append(whole.low)
        highs.append(whole.high)
        total, seconds, end = total + whole.mean * covers, seconds + covers, min(end, span[0])
    if not lows:
        return ""
    return f"min {form(min(lows))} mean {form(total / seconds)} max {form(max(highs))}"


def _top(device: Device, reading: str) -> float | None:
    """Return the value at the upper edge of a graph; None if it is unknown."""
    tops: dict[str, float | None] = {
        "memory_used_bytes": device.memory_total_bytes,
        "power_w": device.power_limit_w,
        "temperature_c": device.temperature_slowdown_c or 100.0,
        "sm_clock_mhz": device.sm_clock_max_mhz,
    }
    top = tops.get(reading, 100.0)
    return float(top) if top and top > 0 else None


def _round_above(value: float) -> float:
    """Return the next number above that is 1, 2 or 5 times a power of ten; 1 for no traffic."""
    if not 0 < value < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 5) if value <= step * power), 10 * power)


def _gigabytes(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.1f}"


def _now(device: Device, reading: str) -> str:
    value = getattr(device, reading)
    if reading == "memory_used_bytes":
        return memory_text(device, 12)
    if reading.endswith("_percent"):
        return units.number(value, "%")
    if reading in LINKS:
        return units.UNKNOWN if value is None else f"{_gigabytes(value)} GB/s"
    if reading == "temperature_c":
        return units.number(value, " °C")
    limit, unit = (device.power_limit_w, "W") if reading == "power_w" else (device.sm_clock_max_mhz, "MHz")
    return units.number(value) + (f" / {limit:.0f} {unit}" if limit is not None else f" {unit}" if value is not None else "")


def _style(device: Device, reading: str) -> str:
    if getattr(device, reading) is None:
        return "dim"
    return "bad" if reading == "temperature_c" and is_hot(device) else "value"


def time_axis(stretch: Stretch, cells: int, between: Line = ()) -> Line:
    """Return the line below graphs: where they begin, and now; ``between`` them, if there is room."""
    began = units.coarse_duration(stretch.end - stretch.start).removesuffix("00s")
    start, end = line((f"{began} ago", "dim")), line(("now", "dim"))
    room = cells - width(start) - width(end)
    if not between or width(between) + 2 > room:
        return spread(start, end, cells)
    before = (room - width(between)) // 2
    return spread((*start, Span(" " * before), *between), end, cells)
