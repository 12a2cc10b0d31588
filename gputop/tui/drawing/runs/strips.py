"""Rows below a run's chart: how a step divides, and on its x axis GPUs, throughput, power, and a heat row per rank. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputop import units
from gputop.facts.table import Facts
from gputop.history.history import History
from gputop.snapshot import Device, Run, own_or_automatic
from gputop.tui.drawing.bars import segments
from gputop.tui.drawing.gpus.past import row_of_past
from gputop.tui.drawing.large_chart import LABEL_COLUMNS, Chart
from gputop.tui.drawing.line import ASCII_ELLIPSIS, Line, Span, clip, cut, fit_text, line
from gputop.tui.drawing.run_numbers import SPEED_METRICS, sharing, speed_unit
from gputop.tui.drawing.run_panel import SPLIT_METRICS, STYLES, step_s, step_shares
from gputop.tui.drawing.runs.overlay import Layer
from gputop.tui.drawing.runs.time_line import Columns, columns_of, means
from gputop.tui.drawing.runs.why_slow import step_words
from gputop.tui.state.view import View

SUBJECTS = ("wait", "step time", "loss")
"""What the rows of ranks can show, in the order in which a key switches them."""
_METRICS = {"wait": "phase/communication", "step time": "step_s"}
_LABEL_CELLS = LABEL_COLUMNS + 1
KILOWATT_W = 1000.0
"""From this power on, the row is in kW: "power" and "4.88k" do not fit side by side."""

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Strip:
    """One row: its label, its values, the value that fills a cell, how a value is written, and whether trouble marks it."""

    label: str
    values: Values
    top: float
    unit: str = ""
    low: float = 0.0
    style: str = "dim"


def strip_lines(
    layer: Layer, chart: Chart, view: View, devices: Sequence[Device], subject: str, loss: str | None
) -> tuple[Line, ...]:
    """Return the rows for the run of ``layer``, aligned with its chart; empty if nothing is known.

    ``subject`` is one of ``SUBJECTS``; ``loss`` is the name of the run's loss.
    """
    count = chart.width - _LABEL_CELLS
    columns = columns_of(layer, chart.x_start, chart.x_end, count) if count > 0 else None
    if columns is None:
        return ()
    ascii_only = chart.ascii
    cursor = None if chart.cursor is None else min(count - 1, int(chart.share_of(chart.cursor) * count))
    history, run = view.history, layer.run
    strips = [*gpu_strips(run, devices, columns, view), *_run_strips(run, devices, columns, history)]
    # First, because what does not fit is cut at the end.
    lines = _split_lines(run, columns, view, cursor, count, ascii_only)
    lines += [_drawn(strip, cursor, ascii_only) for strip in strips]
    ranks = rank_strips(run, subject, loss, columns, history)
    if ranks:
        head = f"{subject} by rank, {units.metric(ranks[0].low, 3)} to {units.metric(ranks[0].top, 3)}{ranks[0].unit}"
        lines.append(line((" " * _LABEL_CELLS, "dim"), (head, "dim"), ("  h", "key"), (" other", "dim")))
        lines += [_drawn(strip, cursor, ascii_only) for strip in ranks]
    return tuple(lines)


def devices_of(run: Run, view: View, uuids: Sequence[str]) -> tuple[Device, ...]:
    """Return the devices that a run uses or has used: those of ``uuids``, those that its ranks report, those recorded with it.

    Of a recorded device that no longer exists, only UUID and index are known.
    """
    stated = [device for rank in run.ranks for device in Facts(rank.facts).devices]
    known = {*uuids, *(device.uuid for device in stated if device.uuid)}
    virtual = {device.virtual_index for device in stated if device.virtual_index is not None}
    recorded = view.history.gpus_of(run.run_id)
    found = {
        device.uuid: device
        for device in view.snapshot.devices
        if device.uuid in known or device.uuid in recorded or (device.kind == "virtual" and device.index in virtual)
    }
    gone = [Device(index or 0, uuid, state="lost") for uuid, index in recorded.items() if uuid not in found]
    # A virtual GPU has another UUID after each boot: the recorded one replaces the one that has its number now.
    replaced = {device.index for device in gone}
    kept = (device for device in found.values() if device.uuid in recorded or device.index not in replaced)
    return tuple(sorted((*kept, *gone), key=lambda device: device.index))


def gpu_strips(run: Run, devices: Sequence[Device], columns: Columns, view: View) -> list[Strip]:
    """Return the utilization of each GPU, if any of it was seen in this period."""
    found = []
    for device in devices:
        values = _of_device(run, device, "utilization_percent", columns, view.history)
        if any(value is not None for value in values):
            style = "accent" if device.uuid in view.involved_devices else "text"
            found.append(Strip(f"GPU{device.index}", values, 100.0, "%", style=style))
    return found


def _of_device(run: Run, device: Device, reading: str, columns: Columns, history: History) -> Values:
    """Return a reading in each column, as this screen saw it, else as it was recorded with the run; empty if it has neither."""
    seen = (history.device(device.uuid, reading), history.recorded(run.run_id, device.uuid, reading))
    rows = [means(series, columns.times) for series in seen if series is not None]
    return [next((value for value in column if value is not None), None) for column in zip(*rows, strict=True)]


def _run_strips(run: Run, devices: Sequence[Device], columns: Columns, history: History) -> list[Strip]:
    found = []
    for name in SPEED_METRICS:
        speeds = history.metric(run.run_id, name)
        groups = sharing(run, speeds)
        if groups is None:
            break
        # Ranks that are given the same samples, as in tensor parallelism, count once.
        speed = _sum([_highest([columns.of(speeds[rank]) for rank in group]) for group in groups])
        if any(value is not None for value in speed):
            found.append(Strip(speed_unit(name).replace("samples", "smp"), speed, _largest([speed])))
            break
    powers = (_of_device(run, device, "power_w", columns, history) for device in devices)
    power = _sum([values for values in powers if values])
    if any(value is not None for value in power):
        top = _largest([power])
        found.append(
            Strip("kW", [None if value is None else value / 1e3 for value in power], top / 1e3)
            if top >= KILOWATT_W
            else Strip("power", power, top, "W")
        )
    return found


def rank_strips(run: Run, subject: str, loss: str | None, columns: Columns, history: History) -> list[Strip]:
    """Return a row per rank with the share of a step that it waits, its step time, or its loss; all on one scale."""
    if len(run.ranks) < 2:
        return []
    name = loss if subject == "loss" else _METRICS[subject]
    series = history.metric(run.run_id, name) if name is not None else {}
    rows: dict[int, Values] = {rank: columns.of(item) for rank, item in sorted(series.items())}
    if subject == "wait":
        whole = {rank: columns.of(item) for rank, item in history.metric(run.run_id, "step_s").items()}
        rows = {rank: _shares(row, whole.get(rank, ())) for rank, row in rows.items()}
    known = [value for row in rows.values() for value in row if value is not None]
    if not known or len(rows) < 2:
        return []
    if subject == "wait":
        return [Strip(f"r{rank}", row, 100.0, "%", style="owner") for rank, row in rows.items()]
    if subject == "step time":
        in_ms = {rank: [None if value is None else value * 1e3 for value in row] for rank, row in rows.items()}
        return [Strip(f"r{rank}", row, _largest(list(in_ms.values())), " ms", style="owner") for rank, row in in_ms.items()]
    low, top = min(known), max(known)
    return [Strip(f"r{rank}", row, top, "", low, "owner") for rank, row in rows.items()]


def first_subject(run: Run, history: History, *, after: str | None = None) -> str:
    """Return what the rows of ranks show: the first, or the next ``after`` one, for which the run has values."""
    names = set(history.metrics(run.run_id))
    known = [subject for subject in SUBJECTS if subject == "loss" or own_or_automatic(_METRICS[subject], names) in names]
    if after in known:
        return known[(known.index(after) + 1) % len(known)]
    return known[0]


def _split_lines(run: Run, columns: Columns, view: View, cursor: int | None, count: int, ascii_only: bool) -> list[Line]:
    """Return how a step divides at the cursor, else at the end of the visible part: a bar, and its words with the reason."""
    if cursor is not None:
        run = _at(run, columns.only(cursor), view.history)
    shares, steps = step_shares(run), step_s(run)
    if not shares or not steps:
        return []
    bar = segments([(share, STYLES[word]) for word, share in shares.items()], count, ascii_only)
    words = step_words(run, shares, view.findings if cursor is None else (), count)
    return [
        (Span(fit_text("one step", _LABEL_CELLS), "dim"), *bar),
        (Span(fit_text(f"{steps * 1e3:.4g} ms", _LABEL_CELLS), "value"), *clip(words, count)),
    ]


def _at(run: Run, column: Columns, history: History) -> Run:
    """Return the run with the values that its ranks had in one column."""
    series = {name: history.metric(run.run_id, name) for name in SPLIT_METRICS}
    ranks = []
    for rank in run.ranks:
        held = {name: column.of(ranked[rank.rank])[0] for name, ranked in series.items() if rank.rank in ranked}
        ranks.append(replace(rank, metrics={name: value for name, value in held.items() if value is not None}))
    return replace(run, ranks=tuple(ranks))


def _value_at(values: Values, cursor: int | None) -> float | None:
    if cursor is not None:
        return values[cursor] if cursor < len(values) else None
    return next((value for value in reversed(values) if value is not None), None)


def _drawn(strip: Strip, cursor: int | None, ascii_only: bool) -> Line:
    """Return a row with its label, and its value at the cursor, else its newest."""
    label, text = label_of(strip, _value_at(strip.values, cursor))
    span = strip.top - strip.low
    shares = [None if value is None else (value - strip.low) / span if span > 0 else 0.5 for value in strip.values]
    row = row_of_past(shares, ascii_only)
    if cursor is not None:
        row = (*cut(row, 0, cursor), Span("|" if ascii_only else "│"), *cut(row, cursor + 1, len(strip.values)))
    return (Span(label, strip.style), Span(text, "value"), *row)


def label_of(strip: Strip, value: float | None) -> tuple[str, str]:
    """Return a row's label and its value, which together take the cells before the row; with a gap if one is left."""
    number = "" if value is None else f"{value:.0f}" if strip.unit == "%" else short(value)
    texts = (f"{number}{strip.unit.strip()} " if number else "", f"{number} ", number)
    text = next((text for text in texts if len(strip.label) + 1 + len(text) <= _LABEL_CELLS), number)
    # "smp/s" next to a long value is "smp": a cut label would run into the value.
    label = strip.label if len(strip.label) + len(text) < _LABEL_CELLS else strip.label.partition("/")[0]
    if text == number and len(label) + len(text) + 2 <= _LABEL_CELLS:
        text = f"{number} "
    return fit_text(label, max(0, _LABEL_CELLS - len(text)), ellipsis=ASCII_ELLIPSIS), text


def short(value: float) -> str:
    """Return a value in about three cells: "0.52", "7.1", "640", "12k"."""
    for scale, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            scaled = value / scale
            return f"{scaled:.0f}{suffix}" if scaled >= 10 else f"{scaled:.2g}{suffix}"
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"


def _shares(parts: Values, wholes: Values) -> list[float | None]:
    pairs = zip(parts, wholes, strict=False)
    return [
        100 * part / whole if part is not None and whole is not None and 0 <= part <= whole and whole > 0 else None
        for part, whole in pairs
    ]


def _sum(rows: Sequence[Values]) -> list[float | None]:
    """Return the sum of each column; None if one value is unknown, because the rest is not the sum."""
    columns = ([value for value in column if value is not None] for column in zip(*rows, strict=True))
    return [sum(known) if len(known) == len(rows) else None for known in columns]


def _highest(rows: Sequence[Values]) -> Values:
    """Return the largest known value of each column."""
    columns = ([value for value in column if value is not None] for column in zip(*rows, strict=True))
    return [max(known, default=None) for known in columns]


def _largest(rows: Sequence[Values]) -> float:
    return max((value for row in rows for value in row if value is not None), default=1.0) or 1.0
