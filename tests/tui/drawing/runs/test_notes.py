"""What is written above a run's curve: epochs, checkpoints, the first NaN, findings."""

from __future__ import annotations

import math
from dataclasses import replace

from gputop.doctor.findings.finding import Finding
from gputop.history.history import History
from gputop.snapshot import Points
from gputop.tui.drawing.large_chart import Chart, Note, draw
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.runs.notes import notes_of
from gputop.tui.drawing.runs.overlay import curves_of, layers_of
from gputop.tui.state.view import View
from tests import samples

START = samples.EPOCH - 600
STEPS = tuple(range(200))
TIMES = tuple(START + step for step in STEPS)


def points(metric: str, values: list[float], run_id: str = "run-1", rank: int = 0, steps: tuple[int, ...] = STEPS) -> Points:
    return Points(run_id, rank, metric, steps, tuple(START + step for step in steps), tuple(values))


def view(*more: Points, **changes: object) -> View:
    history = History()
    loss = [1.0] * 150 + [math.nan] * 50
    history.recall((points("loss", loss), points("loss", [1.0] * 200, rank=1), *more))
    return View(samples.snapshot(points=()), history, **changes)  # type: ignore[arg-type]


def noted(shown: View, kind: str, start: float, end: float, columns: int = 100) -> list[tuple[float, str, str]]:
    layers = layers_of([(samples.run(), "accent")], "loss", kind, shown.history)
    return [(note.x, note.text, note.style) for note in notes_of(layers, shown, start, end, columns)]


EPOCHS = points("epoch", [float(step // 40) for step in STEPS])
CHECKPOINTS = points("checkpoint_s", [0.5, 0.5], steps=(60, 120))
FINDING = Finding("J01", "error", "certain", "The loss is NaN", (), "", "", run="run-1", began_at=START + 152)
OTHER = Finding("J02", "error", "certain", "Another run", (), "", "", run="run-2", began_at=START + 20)
HEAT = Finding("H03", "warning", "likely", "Hot", (), "", "", pids=(4001,), began_at=START + 30)


def test_what_happened_is_noted_along_every_axis() -> None:
    shown = view(EPOCHS, CHECKPOINTS, findings=(FINDING, OTHER, HEAT))
    expected = [
        (150, "NaN at step 150", "bad"),
        (152, "J01", "bad"),
        (30, "H03", "warn"),
        (60, "ckpt", "accent"),
        (120, "ckpt", "accent"),
        *((40 * epoch, f"epoch {epoch}", "dim") for epoch in (1, 2, 3, 4)),
    ]
    assert noted(shown, "step", 0, 200) == expected
    assert noted(shown, "time", 0, 200) == expected
    assert noted(shown, "clock", START, START + 200) == [(START + x, text, style) for x, text, style in expected]
    by_epoch = noted(shown, "epoch", 0, 5)
    assert by_epoch[0] == (150 / 40, "NaN at step 150", "bad")
    assert by_epoch[-1] == (4.0, "epoch 4", "dim")


def test_many_epochs_are_thinned_out_and_what_is_not_visible_is_left_out() -> None:
    often = view(points("epoch", [float(step // 2) for step in STEPS]))
    epochs = [text for _, text, _ in noted(often, "step", 0, 200) if text.startswith("epoch")]
    assert 3 <= len(epochs) <= 7
    assert [text for _, text, _ in noted(often, "step", 10, 20)] == [
        "NaN at step 150",
        *(f"epoch {number}" for number in (5, 6, 7, 8, 9, 10)),
    ]


def test_of_several_runs_only_the_first_nan_of_each_is_noted() -> None:
    shown = view(EPOCHS, points("loss", [1.0] * 30 + [math.inf] * 170, run_id="b"), findings=(FINDING,))
    runs = [(samples.run(), "accent"), (samples.run(1, run_id="b", name="second"), "rank1")]
    layers = layers_of(runs, "loss", "step", shown.history)
    assert [note.text for note in notes_of(layers, shown, 0, 200, 100)] == [
        "NaN at step 150 resnet18-ddp",
        "NaN at step 30 second",
    ]


def test_notes_stand_above_curves_and_below_crosses() -> None:
    shown = view()
    layers = layers_of([(samples.run(), "accent")], "loss", "step", shown.history)
    curves, marks = curves_of(layers, 0.0, 199.0, 182, per_rank=False, smoothing=0.0)
    notes = notes_of(layers, shown, 0.0, 199.0, 91)
    drawn = Chart(100, 20, curves, 0.0, 199.0, "step", marks, notes=notes, y_range=(0.0, 3.0))
    lines = [plain(line) for line in draw(drawn)]
    assert "×××" in lines[0]
    assert "▾NaN at step 150" in lines[1]
    at_edge = replace(drawn, notes=(Note(198.0, "late"),), marks=())
    assert "late▾" in plain(draw(at_edge)[0])
    assert all(plain(line).isascii() for line in draw(replace(drawn, ascii=True)))
