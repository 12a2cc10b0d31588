"""Findings, "undecided" and "no problem" are three things, wherever the screen speaks of the doctor."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.findings.finding import Finding, Undecided
from gputop.history.history import History
from gputop.tui.drawing.doctor.pane import draw_doctor
from gputop.tui.drawing.gpus.detail import gpu_lines
from gputop.tui.drawing.line import plain
from gputop.tui.state.view import View
from tests import samples

WATCHED = (Undecided("E02", "There is too little work in a step", 20.0), Undecided(None, "process 4000 warms up", 9.0))
NOTE = Finding("D04", "info", "possible", "OMP_NUM_THREADS=1", (), "why", "fix")
FOUND = replace(NOTE, id="A01", severity="warning", confidence="likely", title="One GPU of eight works")


def view(*findings: Finding, undecided: tuple[Undecided, ...] = ()) -> View:
    return View(samples.snapshot(), History(), findings=findings, undecided=undecided)


def shown(of: View, height: int) -> str:
    drawing = draw_doctor(of, 100, height)
    return "\n".join(plain(item) for item in (drawing.title, *drawing.lines))


def test_a_folded_pane_says_undecided_in_its_title() -> None:
    assert plain(draw_doctor(view(), 100, 0).title) == "Doctor: No problem found"
    assert plain(draw_doctor(view(undecided=WATCHED), 100, 0).title) == (
        "Doctor: Undecided · watching for: There is too little work in a step"
    )


def test_what_is_watched_is_shown_next_to_what_was_found() -> None:
    for found in (NOTE, FOUND):
        text = shown(view(found, undecided=WATCHED), 6)
        assert found.title in text
        assert "Undecided: watching for: There is too little work in a step; process 4000 warms up" in text
        assert "Undecided" not in shown(view(found), 6)


def test_what_was_found_takes_the_lines_first() -> None:
    assert "fix:" in shown(view(FOUND, undecided=WATCHED), 2)
    assert "Undecided" not in shown(view(FOUND, undecided=WATCHED), 2)


def test_of_a_gpu_nothing_is_promised_while_something_is_undecided() -> None:
    def said(of: View) -> str:
        return "\n".join(map(plain, gpu_lines(of, of.snapshot.devices[0], 0, 100, 60)))

    assert "no problem found with this GPU" in said(view())
    assert "no problem found" not in said(view(undecided=WATCHED))
    assert "undecided" in said(view(undecided=WATCHED))


def test_a_rule_that_is_undecided_about_several_runs_is_named_once() -> None:
    """It was "watching for: 99% of each step …" for each of three runs, without saying of which."""
    runs = tuple(replace(samples.run(1), run_id=name, name=name) for name in ("flat", "nan"))
    watched = tuple(Undecided("D01", f"{99 - at}% of each step passes", 9.0, run.run_id) for at, run in enumerate(runs))
    of = replace(view(NOTE, undecided=watched), snapshot=replace(samples.snapshot(), runs=runs))
    assert "Undecided: watching for: 99% of each step passes · flat, nan" in shown(of, 6)
    assert "98%" not in shown(of, 6)
