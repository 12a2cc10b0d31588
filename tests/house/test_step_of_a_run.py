"""One answer to "at which step is the run?", on every screen and in every command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gputop import units
from gputop.cli.output.once import once_text
from gputop.cli.runs import list_text
from gputop.cli.stored.show import show_lines
from gputop.history.history import History
from gputop.jobs.store import Job
from gputop.snapshot import LIVE_STATES, Rank, Run
from gputop.tui.drawing.jobs import compare
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.training import title_line
from gputop.tui.screens.run.screen import RunScreen
from tests import samples
from tests.tui.kit import ScreenApp, text_of, view_of
from tests.tui.rest import pause_until_rest


def run_of(*ranks: tuple[str, int | None], state: str = "running") -> Run:
    metrics = {"loss": 0.5}
    found = tuple(Rank(number, state=state, step=step, metrics=metrics) for number, (state, step) in enumerate(ranks))
    return samples.run(state=state, ranks=found)


CASES = {
    "the slowest rank decides": (run_of(("running", 103), ("running", 98), ("stalled", 100)), 98),
    "a rank that logs nothing does not count": (run_of(("running", 103), ("running", None), ("starting", None)), 103),
    "one that died does not hold the others back": (run_of(("running", 503), ("killed", 17), ("running", 507)), 503),
    "one that finished early does not either": (run_of(("running", 503), ("finished", 17)), 503),
    "at the end those that finished decide": (run_of(("finished", 905), ("killed", 17), state="killed"), 905),
    "where none finished, all ranks": (run_of(("failed", 310), ("killed", 305), state="failed"), 305),
    "live ranks without a step leave it to the others": (run_of(("failed", 47), ("running", None), state="failed"), 47),
    "a rank of another version has ended": (run_of(("migrating", 12), ("running", 90)), 90),
    "at the first step": (run_of(("running", 0), ("running", 3)), 0),
    "no step yet": (run_of(("running", None)), None),
}
EACH_CASE = pytest.mark.parametrize(("run", "step"), CASES.values(), ids=CASES)


def row(table: str) -> dict[str, str]:
    head, cells = (re.split(r"  +", line) for line in table.splitlines()[-2:])
    return dict(zip(head, cells, strict=True))


@EACH_CASE
def test_the_step_of_a_run(run: Run, step: int | None) -> None:
    assert run.step == step


@EACH_CASE
def test_all_commands_and_the_dashboard_say_the_same(run: Run, step: int | None) -> None:
    snapshot = samples.snapshot(runs=(run,))
    shown = units.UNKNOWN if step is None else str(step)
    assert row(list_text((run,)))["STEP"] == shown
    if run.state in LIVE_STATES:
        assert row(once_text(snapshot))["STEP"] == shown
    said = {
        "gputop runs show": re.search(r"step (\d+)", show_lines(run, {})[0]),
        "dashboard": re.search(r"step (\d+)", plain(title_line(view_of(snapshot), run))),
    }
    assert {name: found and int(found[1]) for name, found in said.items()} == dict.fromkeys(said, step)


@EACH_CASE
def test_the_table_of_jobs_says_the_same(run: Run, step: int | None) -> None:
    job = Job(run.run_id, "job", "running", ("train",), Path("never-opened"))
    assert compare([job], samples.snapshot(runs=(run,)), History())[job.id].step == step


async def test_the_runs_own_screen_says_the_same() -> None:
    for run, step in CASES.values():
        view = view_of(samples.snapshot(runs=(run,)))
        app = ScreenApp(RunScreen(run.run_id), view)
        async with app.run_test(size=(120, 40)) as pilot:
            await pause_until_rest(pilot)
            assert f"step {units.UNKNOWN if step is None else step}" in " ".join(text_of(app).split())
