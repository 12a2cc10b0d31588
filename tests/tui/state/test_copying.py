"""`y` copies what is under the cursor, and says what that was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.widgets._toast import Toast

from gputop.doctor.findings.finding import Finding
from gputop.tui.state import copying
from tests import samples
from tests.tui.kit import text_of, whole_app
from tests.tui.screens.test_hostile_names import EVIL


async def test_y_copies_what_the_focused_pane_or_the_screen_is_about() -> None:
    app = whole_app()
    device = samples.snapshot().devices[0]
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        await pilot.pause()
        copied = []
        for keys in (("3", "down"), ("1",), ("2",), ("3", "enter"), ("escape", "1", "enter"), ("escape", "2", "enter")):
            await pilot.press(*keys)
            await pilot.pause()
            await pilot.press("y")
            copied.append(app.clipboard)
        process = "4001 /opt/venv/bin/python -u train.py --epochs 90"
        assert copied == [
            process,
            device.uuid,
            "run-1",
            process,
            device.uuid,
            "run-1",
        ]
        told = [notice.message for notice in app._notifications]
        assert told[-1] == "Copied the run id, if your terminal allows it (OSC 52): run-1"
        await pilot.press("escape", "question_mark", "y")
        assert any("There is nothing to copy here" in notice.message for notice in app._notifications)
        assert app.clipboard == "run-1"


@pytest.mark.parametrize("columns", [80, 100, 160])
async def test_the_notice_of_a_copy_covers_only_the_first_line(columns: int) -> None:
    """It stood on the last line of a table."""
    app = whole_app()
    async with app.run_test(size=(columns, 24), notifications=True) as pilot:
        await pilot.pause()
        await pilot.press("3", "down", "y")
        await pilot.pause()
        assert app.screen.query_one(Toast).region.y == 0
        assert app.screen.query_one(Toast).size.height == 1
        assert "Copied the PID and command, if your terminal allows it (OSC 52): 4001 /opt" in text_of(app).splitlines()[0]


def test_what_is_copied_starts_nothing_when_it_is_pasted() -> None:
    process = replace(samples.rank_process(0, ()), command=("python", EVIL, "a b"))
    finding = Finding("A05", "error", "certain", "t", (), "c", f"one\ntwo {EVIL}")
    for copy in (copying.of_process(process), copying.of_finding(finding)):
        assert copy is not None
        assert all(char.isprintable() or char == "\n" for char in copy.text)
        assert len(copy.message(160)) < 150
        assert "\n" not in copy.message(160)
    assert copying.of_process(process).text.count("\n") == 0  # type: ignore[union-attr]
    assert "'a b'" in copying.of_process(process).text  # type: ignore[union-attr]
    assert copying.of_process(None) is copying.of_run(None) is copying.of_device(None) is copying.of_finding(None) is None
