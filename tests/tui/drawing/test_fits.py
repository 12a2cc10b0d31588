"""Whatever a machine reports and however small a pane is: no line is wider than the pane, and no style is unknown."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gputop.doctor.findings.finding import Fact, Finding
from gputop.history.history import History
from gputop.settings.values import Settings
from gputop.snapshot import Device, DeviceUse, Host, Points, Problem, Process, Rank, Run, Snapshot
from gputop.tui.drawing.braille import Trace, chart, dot_columns
from gputop.tui.drawing.doctor.pane import draw_doctor
from gputop.tui.drawing.gpus.pane import draw_gpus
from gputop.tui.drawing.gpus.verdict import verdict_line
from gputop.tui.drawing.header import header_line
from gputop.tui.drawing.line import STYLES, Drawing, Line, ascii_line, plain, text_width, width
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.processes.pane import draw_processes
from gputop.tui.drawing.processes.rows import SORTABLE, Order, process_rows
from gputop.tui.drawing.training import draw_training
from gputop.tui.state.view import View

# Shrinking a view of hundreds of values takes minutes; the failing view is printed as it was found.
QUICK = settings(
    max_examples=40,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

NAMES = st.one_of(st.none(), st.text(max_size=12), st.sampled_from(["NVIDIA H100 80GB HBM3", "日本語の名前", "a\x1b[31m"]))
NUMBERS = st.one_of(st.none(), st.floats(0, 1e5), st.just(0.0))
SIZES = st.one_of(st.none(), st.integers(0, 2**42))
PROBLEMS = st.one_of(st.none(), st.builds(Problem, st.just("other"), st.text(max_size=60), st.text(max_size=60)))


@st.composite
def devices(draw: st.DrawFn) -> tuple[Device, ...]:
    made = []
    for index in range(draw(st.integers(0, 32))):
        kind = draw(st.sampled_from(["gpu", "gpu", "gpu", "virtual", "mig"]))
        parent = made[0].uuid if made and kind == "mig" else None
        if draw(st.booleans()):
            made.append(Device(index, f"U{index}", kind=kind, parent_uuid=parent))
            continue
        made.append(
            Device(
                index,
                f"U{index}",
                name=draw(NAMES),
                kind=kind,
                parent_uuid=parent,
                mig_label=draw(NAMES),
                state=draw(st.sampled_from(["ok", "ok", "lost", "error", "stale"])),
                age_s=draw(NUMBERS),
                problem=draw(PROBLEMS),
                memory_total_bytes=draw(SIZES),
                memory_used_bytes=draw(SIZES),
                utilization_percent=draw(st.one_of(st.none(), st.floats(0, 100))),
                power_w=draw(NUMBERS),
                temperature_c=draw(NUMBERS),
                temperature_slowdown_c=draw(NUMBERS),
                throttle_reasons=draw(st.sampled_from([(), ("sw_power_cap",), ("hw_thermal_slowdown",), ("new_reason",)])),
            )
        )
    return tuple(made)


@st.composite
def views(draw: st.DrawFn) -> View:
    found = draw(devices())
    processes = tuple(
        Process(
            pid=draw(st.integers(1, 2**22)),
            devices=tuple(DeviceUse(device.uuid, draw(SIZES), draw(NUMBERS)) for device in found[: draw(st.integers(0, 3))]),
            user=draw(NAMES),
            name=draw(NAMES),
            command=draw(st.one_of(st.none(), st.lists(st.text(max_size=30), max_size=3).map(tuple))),
            cpu_percent=draw(NUMBERS),
            started_at=draw(st.one_of(st.none(), st.floats(0, 2e9))),
            hidden=draw(st.sampled_from([(), ("command", "cpu_percent")])),
            in_namespace=draw(st.booleans()),
            run_id=draw(st.sampled_from([None, "r"])),
            rank=draw(st.one_of(st.none(), st.integers(0, 99))),
        )
        for _ in range(draw(st.integers(0, 5)))
    )
    values = st.floats(allow_nan=True, allow_infinity=True)
    ranks = tuple(
        Rank(rank, state=draw(st.sampled_from(["running", "failed"])), step=rank, metrics={"loss": draw(values)})
        for rank in range(draw(st.integers(0, 3)))
    )
    state = draw(st.sampled_from(["starting", "running", "stalled", "finished", "failed", "killed"]))
    runs = (Run("r", draw(st.text(max_size=40)), state=state, ranks=ranks),) if draw(st.booleans()) else ()
    points = tuple(
        Points("r", rank.rank, "loss", tuple(range(20)), tuple(float(step) for step in range(20)), tuple([draw(values)] * 20))
        for rank in ranks
    )
    snapshot = Snapshot(
        sequence=0,
        time=100.0,
        monotonic_s=1.0,
        interval_s=1.0,
        host=Host(
            draw(st.text(max_size=30)), problem=draw(PROBLEMS), source=draw(st.sampled_from(["nvml", "virtual", "none"]))
        ),
        devices=found,
        processes=processes,
        runs=runs,
        points=points,
    )
    history = History()
    for second in range(3):
        history.observe(replace(snapshot, time=98.0 + second, points=points if second == 0 else ()))
    findings = tuple(
        Finding(
            "X01",
            draw(st.sampled_from(["error", "warning", "info"])),
            draw(st.sampled_from(["certain", "likely", "possible"])),
            draw(st.text(max_size=120)),
            tuple(Fact(draw(st.text(max_size=90)), None, "NVML") for _ in range(draw(st.integers(0, 4)))),
            "",
            draw(st.text(max_size=160)),
            devices=tuple(device.uuid for device in found[:1]),
        )
        for _ in range(draw(st.integers(0, 4)))
    )
    chosen = Settings(
        ascii=draw(st.booleans()),
        density=draw(st.sampled_from(["auto", "full", "compact"])),
        log_axis=draw(st.booleans()),
        smoothing=draw(st.sampled_from([0.0, 0.9])),
        per_rank=draw(st.booleans()),
    )
    return View(snapshot, history, findings, chosen, run_id="r", paused=draw(st.booleans()), stale_s=draw(NUMBERS))


def check(lines: tuple[Line, ...], columns: int) -> None:
    for part in lines:
        assert width(part) <= columns, plain(part)
        for span in part:
            assert set(span.style.split()) <= set(STYLES)
            assert all(char.isprintable() or char == " " for char in span.text), span


def check_drawing(drawing: Drawing, columns: int) -> None:
    check(drawing.lines, columns)
    check((drawing.title, drawing.subtitle, drawing.footer), 10**6)


@QUICK
@given(views(), st.integers(20, 200), st.integers(1, 40), st.sampled_from(SORTABLE), st.booleans(), st.booleans())
def test_every_pane_fits(view: View, columns: int, rows: int, sort: str, invert: bool, tree: bool) -> None:
    check_drawing(draw_gpus(view, columns, rows), columns)
    training = draw_training(view, LossChart(), columns, rows)
    check_drawing(training, columns)
    doctor = draw_doctor(view, columns, rows)
    check_drawing(doctor, columns)
    assert len(doctor.lines) <= max(rows, len(view.findings))
    order = Order(sort, invert, tree=tree)
    check_drawing(draw_processes(view, process_rows(view.snapshot, order), order, columns), columns)
    check((verdict_line(view, columns),), columns)


@QUICK
@given(views(), st.integers(20, 200))
def test_header_is_exactly_as_wide_as_the_screen(view: View, columns: int) -> None:
    shown = header_line(view, columns)
    check((shown,), columns)
    assert width(shown) == columns


@QUICK
@given(
    st.lists(st.one_of(st.none(), st.floats()), max_size=200),
    st.integers(0, 90),
    st.integers(0, 30),
    st.booleans(),
    st.booleans(),
)
def test_charts_fill_their_room_exactly(
    values: list[float | None], columns: int, rows: int, log: bool, ascii_only: bool
) -> None:
    drawn = chart([Trace(values, "rank0", values, values)], columns, rows, log=log, ascii_only=ascii_only)
    assert len(drawn) == rows
    assert all(width(part) == columns for part in drawn)
    assert not ascii_only or all(plain(part).isascii() for part in drawn)
    shown = values[: dot_columns(columns, ascii_only)]
    if any(value is not None and not math.isfinite(value) for value in shown) and rows:
        assert ("x" if ascii_only else "×") in plain(drawn[0])


@given(st.lists(st.text(max_size=20), max_size=4))
def test_ascii_form_has_the_same_width(parts: list[str]) -> None:
    from gputop.tui.drawing.line import clean, line

    made = line(*(clean(part) for part in parts))
    shown = ascii_line(made)
    assert plain(shown).isascii()
    assert width(shown) == sum(text_width(char) for char in plain(made))
