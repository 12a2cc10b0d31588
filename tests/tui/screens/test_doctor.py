"""The doctor's screen over a real doctor: the verdict, the rows involved, what it explains, the others, and the past."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Undecided
from gputop.history.history import History
from gputop.snapshot import Snapshot
from gputop.tui.drawing.processes.pane import draw_processes
from gputop.tui.drawing.processes.rows import Order, process_rows
from gputop.tui.screens.doctor import DoctorScreen
from gputop.tui.state.view import View
from gputop.tui.widgets.choice_list import ChoiceList
from tests.doctor.scenes import base as scenes
from tests.tui.kit import ScreenApp, text_of


def one_gpu_works(second: int) -> Snapshot:
    """Four ranks on GPU 0 of eight, one of them with a second context: A07, which explains H01."""
    ranks = tuple(scenes.rank(number, scenes.use(0, 8.0, 24.0), world=4, second=second) for number in range(4))
    run = scenes.journal(4, second)
    timed = {"step_s": 0.2, "phase/data": 0.01, "phase/forward": 0.05, "phase/backward": 0.12}
    run = replace(run, ranks=tuple(replace(rank, metrics={**rank.metrics, **timed}) for rank in run.ranks))
    return scenes.scene(second, scenes.gpus([0]), ranks, (run,))


def healthy(second: int) -> Snapshot:
    ranks = tuple(scenes.rank(number, scenes.use(number), world=4, second=second) for number in range(4))
    return scenes.scene(second, scenes.gpus(range(4), count=4), ranks, (scenes.journal(4, second),))


def view_after(*parts: tuple[object, range]) -> View:
    doctor, history = Doctor(), History()
    snapshot, findings = None, ()
    for scene, seconds in parts:
        for second in seconds:
            snapshot = scene(second)  # type: ignore[operator]
            history.observe(snapshot)
            findings = doctor.observe(snapshot)
    assert snapshot is not None
    return View(snapshot, history, findings, run_id="run-1", abstained=doctor.abstained, diagnosis=doctor)


async def shown(view: View, size: tuple[int, int], chosen: str = "") -> str:
    app = ScreenApp(DoctorScreen(view), view)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        if chosen:
            app.screen.query_one("#findings", ChoiceList).choose(chosen)
            await pilot.pause()
        app.give(view)
        await pilot.pause()
        return text_of(app)


async def test_the_rows_that_a_finding_is_about_are_next_to_it() -> None:
    text = await shown(view_after((one_gpu_works, range(40))), (160, 50))
    assert "Only GPU 0 is used" in text
    beside = text[text.index("GPUs and ranks involved") :]
    assert re.search(r"  0 +r0-3 +98%", beside)
    for rank in range(4):
        assert re.search(rf"▸ +{rank} +{4000 + rank} 0 .* 5% +25% +60%", beside), rank


async def test_every_rule_has_its_verdict() -> None:
    view = view_after((one_gpu_works, range(40)))
    assert view.diagnosis is not None
    verdicts = {verdict.rule: verdict for verdict in view.diagnosis.verdicts()}
    assert verdicts["A07"].state == "found"
    assert verdicts["B01"].state in ("clean", "not_judged")
    text = await shown(view, (160, 70), "why not")
    assert "Why not another cause" in text
    assert text.index("Holds (") < text.index("A07 two ranks")
    assert re.search(r"Does not hold \(\d+\)", text)


async def test_a_finding_that_disappeared_stays_in_the_history() -> None:
    view = view_after((one_gpu_works, range(40)), (healthy, range(40, 60)))
    assert view.diagnosis is not None
    (episode,) = [item for item in view.diagnosis.episodes if item.finding.id == "A07"]
    assert episode.ended_at is not None
    assert 20 <= episode.ended_at - episode.began_at <= 50
    assert "A07" not in {finding.id for finding in view.findings}
    text = await shown(view, (100, 30), "history")
    assert re.search(r"\d\d:\d\d:\d\d for \d+s +A07 Only GPU 0 is used", text)


async def test_what_is_watched_is_listed_next_to_what_was_found() -> None:
    watched = (Undecided("E02", "There is too little work in a step", 20.0), Undecided(None, "process 4000 warms up", 9.0))
    for found in (view_after((one_gpu_works, range(40))), view_after((healthy, range(20)))):
        assert "ndecided" not in await shown(found, (160, 50))
        view = replace(found, undecided=watched)
        text = await shown(view, (160, 50), "undecided" if found.findings else "")
        assert "no problem" not in text.lower()
        assert "Undecided" in text
        assert "· watching for: There is too little work in a step" in text
        assert "· process 4000 warms up" in text
        assert "watching for: There is too little work in a step" in text


async def test_what_is_explained_says_by_what() -> None:
    doctor = Doctor()
    for second in range(40):
        doctor.observe(one_gpu_works(second))
    for finding in doctor.suppressed:
        assert finding.suppressed_by
        assert finding.id not in {item.id for item in doctor.observe(one_gpu_works(40))}


@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_process_table_marks_the_subjects_of_the_verdict(ascii_only: bool) -> None:
    view = view_after((one_gpu_works, range(40)))
    view = replace(view, settings=replace(view.settings, ascii=ascii_only))
    rows = process_rows(view.snapshot, Order())
    lines = ["".join(span.text for span in line) for line in draw_processes(view, rows, Order(), 100).lines]
    assert sum(line.startswith("> 0" if ascii_only else "▸ 0") for line in lines) == 4
