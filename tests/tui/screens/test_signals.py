"""Signals from the process table: real processes; which get one, which do not, and the remark on each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gputop.jobs import identity
from gputop.places import state_dir
from gputop.settings.values import Settings
from gputop.snapshot import Ancestor, LaunchEnvironment, Process
from gputop.tui.screens.signalling import Recipient, recipient, send
from gputop.tui.screens.signals import SignalScreen
from gputop.tui.screens.stop import StopScreen, stop_question
from gputop.tui.state.keys import APP_KEYS
from tests.patience import DEADLINE_S
from tests.tui.dashboards import DashboardApp
from tests.tui.kit import SIZES, ScreenApp, text_of, view_of
from tests.tui.screens.test_stop import here, process_of

Child = subprocess.Popen[bytes]


@pytest.fixture
def children() -> Iterator[list[Child]]:
    """Three real processes of ours that wait."""
    started = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"]) for _ in range(3)]
    yield started
    for process in started:
        process.kill()
        process.wait()


def listed(child: Child, **changes: object) -> Process:
    """The process as the table lists it."""
    ticks = identity.start_ticks(child.pid)
    assert ticks is not None
    return process_of(child.pid, **({"started_at": identity.started_at(ticks), "user": "ada"} | changes))


@pytest.mark.parametrize("size", SIZES)
async def test_the_question_names_them_and_does_nothing_by_itself(children: list[Child], size: tuple[int, int]) -> None:
    app = ScreenApp(SignalScreen([listed(child) for child in children], here()), here())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        shown = text_of(app)
        assert "Signal 3 processes?" in shown
        for words in (*(f"{child.pid} ada" for child in children), "python -u train.py", "SIGINT", "SIGTERM", "SIGKILL"):
            assert words in shown, words
        for key in (key for keys in APP_KEYS for key in keys.keys.split(",") if keys.action not in ("leave", "stop_chosen")):
            await pilot.press(key)
        assert isinstance(app.screen, SignalScreen)
        await pilot.press("enter")
        await pilot.pause()
        assert not isinstance(app.screen, SignalScreen)
    assert [child.poll() for child in children] == [None] * 3


async def test_a_long_list_leaves_the_buttons_in_sight(children: list[Child]) -> None:
    many = [replace(listed(children[0]), pid=10_000_000 + number) for number in range(60)]
    app = ScreenApp(SignalScreen([listed(children[0]), *many], here()), here())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        shown = text_of(app)
        for words in ("Signal process", "… and 5", "Cancel", "SIGKILL"):
            assert words in shown, words


@pytest.mark.parametrize(("downs", "number"), [(1, signal.SIGINT), (2, signal.SIGTERM), (3, signal.SIGKILL)])
async def test_the_chosen_signal_is_sent(children: list[Child], downs: int, number: int) -> None:
    app = ScreenApp(SignalScreen([listed(children[0])], here()), here())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press(*["down"] * downs, "enter")
        await pilot.pause()
        assert not isinstance(app.screen, SignalScreen)
    assert children[0].wait(DEADLINE_S) == -number
    assert children[1].poll() is None


async def test_the_result_of_each_signal_is_shown(children: list[Child]) -> None:
    """One is signaled, one ends while the question is open, and the PID of one belongs to a later process."""
    reused = listed(children[2])
    assert reused.started_at is not None
    reused = replace(reused, started_at=reused.started_at - 60)
    app = ScreenApp(SignalScreen([listed(children[0]), listed(children[1]), reused], here()), here())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        assert "Signal 2 processes?" in text_of(app)
        assert "another process has its PID" in text_of(app)
        children[1].kill()
        children[1].wait()
        await pilot.press("down", "down", "enter")
        await pilot.pause()
        shown = text_of(app)
        assert "SIGTERM was sent to 1 of 3 processes." in shown
        assert any(row.strip(" │") == "SIGTERM was sent." for row in shown.splitlines())
        assert f"Process {children[1].pid} has ended already." in shown
        await pilot.press("enter")
        await pilot.pause()
        assert not isinstance(app.screen, SignalScreen)
    assert children[0].wait(DEADLINE_S) == -signal.SIGTERM
    assert children[2].poll() is None


def test_a_pid_that_changes_hands_after_the_question_is_left_alone(children: list[Child]) -> None:
    asked = recipient(listed(children[0]), here())
    assert asked.start_ticks is not None
    done, words = send(replace(asked, start_ticks=asked.start_ticks - 1), signal.SIGKILL)
    assert (done, words) == (False, f"Process {children[0].pid} has ended already.")
    assert children[0].poll() is None


def test_processes_that_get_no_signal(children: list[Child]) -> None:
    child = children[0]
    job = LaunchEnvironment(gputop_job_id="20260101-000000-abcd")
    refused = {
        "belongs to job 20260101-000000-abcd": recipient(listed(child, environment=job), here()),
        "It belongs to bob": recipient(listed(child, uid=os.getuid() + 1, user="bob"), here()),
        "another container": recipient(listed(child, in_namespace=False), here()),
        "--readonly": recipient(listed(child), here(settings=Settings(readonly=True))),
        "recording": recipient(listed(child), here(feed="replay")),
        "another machine": recipient(listed(child), view_of()),
    }
    for words, one in refused.items():
        assert words in one.refusal
        assert send(one, signal.SIGKILL) == (False, one.refusal)
    child.kill()
    child.wait()
    assert recipient(process_of(child.pid, started_at=None), here()).refusal == "It has ended."


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user for a moment")
def test_a_signal_that_the_system_does_not_permit(children: list[Child]) -> None:
    ticks = identity.start_ticks(children[0].pid)
    os.setresuid(65534, 65534, 0)
    try:
        done, words = send(Recipient(children[0].pid, "root", "python", ticks), signal.SIGTERM)
    finally:
        os.setresuid(0, 0, 0)
    assert not done
    assert "The system does not permit it" in words
    assert children[0].poll() is None


def test_a_job_under_another_state_directory_is_stopped_by_signals(children: list[Child]) -> None:
    job = LaunchEnvironment(gputop_job_id="20260101-000000-abcd", gputop_state_dir="/elsewhere")
    process = listed(children[0], environment=job)
    assert recipient(process, here()).refusal == ""
    assert isinstance(stop_question([process], here()), SignalScreen)
    ours = replace(process, environment=replace(job, gputop_state_dir=str(state_dir())))
    assert "belongs to job" in recipient(ours, here()).refusal


def test_jobs_and_launched_runs_are_stopped_as_a_whole(children: list[Child]) -> None:
    job = LaunchEnvironment(gputop_job_id="20260101-000000-abcd")
    ranks = [listed(child, environment=job) for child in children]
    for processes in (ranks[:1], ranks):
        question = stop_question(processes, here())
        assert isinstance(question, StopScreen)
        assert question.target.job_id == "20260101-000000-abcd"
    launched = listed(children[0], launcher=Ancestor(children[1].pid, "torchrun"))
    question = stop_question([launched], here())
    assert isinstance(question, StopScreen)
    assert question.target.pid == children[1].pid
    assert isinstance(stop_question([listed(children[0])], here()), SignalScreen)
    assert isinstance(stop_question([launched, listed(children[1])], here()), SignalScreen)


async def test_tags_stay_on_their_processes(children: list[Child]) -> None:
    view = here()
    found = tuple(listed(child, rank=place) for place, child in enumerate(children))
    view = replace(view, snapshot=replace(view.snapshot, processes=found))
    app = DashboardApp(view)
    async with app.run_test(size=(160, 50)) as pilot:

        def tagged() -> list[int]:
            return [process.pid for process in app.dashboard.tagged_processes]

        await pilot.pause()
        first = app.dashboard.chosen_process
        assert first is not None
        for _ in range(2):  # both before either is drawn
            app.dashboard.action_tag()
        await pilot.pause()
        kept = tagged()
        assert first.pid in kept
        assert len(kept) == 2
        assert any("2 tagged: k signals them" in row for row in app.text())
        await pilot.press("I", "s", "slash", *"rank:9", "enter")
        await pilot.pause()
        assert tagged() == kept, "what a filter hides stays tagged, and the title says so"
        await pilot.press("escape")
        await pilot.pause()
        assert tagged() == kept
        assert sum("●" in row for row in app.text()) == 2
        # The PID of one belongs to another process from now on.
        old = next(process for process in found if process.pid == kept[0])
        assert old.started_at is not None
        later = replace(old, started_at=old.started_at + 30)
        app.dashboard.show(
            replace(view, snapshot=replace(view.snapshot, processes=(later, *(one for one in found if one is not old))))
        )
        await pilot.pause()
        assert tagged() == kept[1:]
        await pilot.press("escape")
        await pilot.pause()
        assert tagged() == []
