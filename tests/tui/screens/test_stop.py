from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gputop.errors import GputopError
from gputop.jobs import identity, store
from gputop.settings.values import Settings
from gputop.snapshot import Ancestor, Process, Rank
from gputop.tui.screens.help import HelpScreen
from gputop.tui.screens.stop import StopScreen
from gputop.tui.screens.stopping import StopTarget, stop, target_of_process, target_of_run
from gputop.tui.state.view import View
from tests import samples
from tests.jobs.test_store import SLEEP, ended, launch, nothing_left, says
from tests.patience import DEADLINE_S
from tests.tui.kit import SIZES, ScreenApp, text_of, view_of

assert nothing_left


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A real process of ours that waits."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    yield process
    process.kill()
    process.wait()


def process_of(pid: int, **changes: object) -> Process:
    base = replace(samples.rank_process(0, ()), uid=os.getuid(), launcher=None, run_id=None, rank=None, environment=None)
    return replace(base, pid=pid, **changes)  # type: ignore[arg-type]


def here(**changes: object) -> View:
    """A view of this machine."""
    snapshot = samples.snapshot()
    return view_of(replace(snapshot, host=replace(snapshot.host, boot_id=identity.boot_id())), **changes)


def test_a_process_of_ours_gets_sigterm(child: subprocess.Popen[bytes]) -> None:
    target = target_of_process(process_of(child.pid), here())
    assert target.refusal == ""
    assert str(child.pid) in stop(target)
    assert child.wait(DEADLINE_S) == -15


def test_the_launcher_is_stopped_not_the_rank(child: subprocess.Popen[bytes]) -> None:
    rank = process_of(1, launcher=Ancestor(child.pid, "torchrun"))
    target = target_of_process(rank, here())
    assert target.pid == child.pid
    assert "torchrun" in target.what_happens


def test_a_run_is_stopped_through_one_of_its_processes(child: subprocess.Popen[bytes]) -> None:
    rank = process_of(4000, run_id="run-1", rank=0, launcher=Ancestor(child.pid, "torchrun"))
    view = here()
    view = replace(view, snapshot=replace(view.snapshot, processes=(rank,)))
    assert target_of_run(view.snapshot.runs[0], view).pid == child.pid
    gone = replace(view, snapshot=replace(view.snapshot, processes=()))
    assert "alive on this machine" in target_of_run(view.snapshot.runs[0], gone).refusal


def test_ranks_without_a_common_launcher_are_reported_as_continuing(child: subprocess.Popen[bytes]) -> None:
    ranks = tuple(process_of(pid, run_id="run-1", rank=place) for place, pid in enumerate((child.pid, 4000, 4001)))
    view = here()
    view = replace(view, snapshot=replace(view.snapshot, processes=ranks))
    run = replace(view.snapshot.runs[0], job_id=None)
    target = target_of_run(run, replace(view, snapshot=replace(view.snapshot, runs=(run,))))
    assert target.pid == child.pid
    assert target.what_happens == "SIGTERM goes to this process only: 2 other ranks get no signal."


def test_no_process_here_is_stopped_for_a_rank_of_another_machine(child: subprocess.Popen[bytes]) -> None:
    view = here()
    stranger = process_of(child.pid)  # has nothing to do with the run but its number
    view = replace(view, snapshot=replace(view.snapshot, processes=(stranger,)))
    run = replace(view.snapshot.runs[0], job_id=None, ranks=(Rank(0, pid=child.pid, hostname="node2", elsewhere=True),))
    target = target_of_run(run, view)
    assert (target.pid, "alive on this machine" in target.refusal) == (None, True)


def test_a_job_is_stopped_through_its_record() -> None:
    view = here()
    run = replace(view.snapshot.runs[0], job_id="20260101-000000-abcd")
    assert target_of_run(run, view).job_id == "20260101-000000-abcd"


def test_a_job_that_has_ended_is_not_offered_to_be_stopped() -> None:
    view = here()
    done = ended(store.start(launch("pass")))
    run = replace(view.snapshot.runs[0], job_id=done.id, state="finished")
    assert target_of_run(run, view).refusal == "It has ended: finished."
    lives = store.start(launch(SLEEP))
    says(lives, "up")
    target = target_of_run(replace(run, job_id=lives.id), view)
    assert (target.refusal, target.job_id) == ("", lives.id), "a job may outlive its run"
    stop(target)
    assert ended(lives).state == "stopped"


@pytest.mark.parametrize(
    ("changes", "view_changes", "words"),
    [
        ({"uid": os.getuid() + 1, "user": "bob"}, {}, "belongs to bob"),
        ({"in_namespace": False}, {}, "another container"),
        ({}, {"settings": Settings(readonly=True)}, "--readonly"),
        ({}, {"feed": "replay"}, "recording"),
        ({}, {"remote": "node1"}, "It runs on node1"),  # also where it claims to be this machine
    ],
)
def test_processes_that_must_not_be_stopped_are_refused(
    child: subprocess.Popen[bytes], changes: dict[str, object], view_changes: dict[str, object], words: str
) -> None:
    target = target_of_process(process_of(child.pid, **changes), here(**view_changes))
    assert words in target.refusal
    with pytest.raises(GputopError):
        stop(target)
    assert child.poll() is None


def test_another_machine_is_refused(child: subprocess.Popen[bytes]) -> None:
    assert "another machine" in target_of_process(process_of(child.pid), view_of()).refusal


def test_a_job_and_a_run_of_another_machine_are_refused(child: subprocess.Popen[bytes]) -> None:
    view = here(remote="node1")
    run = replace(view.snapshot.runs[0], job_id="20260101-000000-abcd")
    for target in (target_of_run(run, view), target_of_process(process_of(child.pid, run_id=run.run_id), view)):
        assert "node1" in target.refusal
        assert target.pid is target.job_id is None


def test_a_reused_pid_is_not_signaled(child: subprocess.Popen[bytes]) -> None:
    ticks = identity.start_ticks(child.pid)
    assert ticks is not None
    with pytest.raises(GputopError, match="has ended already"):
        stop(StopTarget("process", "", pid=child.pid, start_ticks=ticks - 1))
    assert child.poll() is None


def test_an_ended_process_is_reported_as_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert target_of_process(process_of(process.pid), here()).refusal == "It has ended."


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keys", [("enter",), ("escape",), ("n",)])
async def test_nothing_is_signalled_without_a_yes(
    child: subprocess.Popen[bytes], size: tuple[int, int], keys: tuple[str, ...]
) -> None:
    app = ScreenApp(StopScreen(target_of_process(process_of(child.pid), here())), here())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        shown = text_of(app)
        assert f"Stop process {child.pid}?" in shown
        assert "No, let it run" in shown
        await pilot.press(*keys)
        await pilot.pause()
        assert not isinstance(app.screen, StopScreen)
    assert child.poll() is None


async def test_panes_below_stay_visible(child: subprocess.Popen[bytes]) -> None:
    app = ScreenApp(HelpScreen(), here())
    app.stylesheet.add_source("Screen { background: $background; }", is_default_css=False)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        app.push_screen(StopScreen(target_of_process(process_of(child.pid), here()), here().settings.ascii))
        await pilot.pause()
        await pilot.pause()
        assert app.screen.styles.background.a == 0


async def test_yes_stops_it(child: subprocess.Popen[bytes]) -> None:
    app = ScreenApp(StopScreen(target_of_process(process_of(child.pid), here())), here())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("down", "enter")
        await pilot.pause()
        assert not isinstance(app.screen, StopScreen)
    assert child.wait(DEADLINE_S) == -15


async def test_a_refusal_is_explained_and_closes() -> None:
    target = target_of_process(process_of(1, uid=os.getuid() + 1, user="bob"), here())
    app = ScreenApp(StopScreen(target), here())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "belongs to bob" in text_of(app)
        assert "Yes" not in text_of(app)
        await pilot.press("y")
        await pilot.pause()
        assert isinstance(app.screen, StopScreen)
        await pilot.press("enter")
        await pilot.pause()
        assert not isinstance(app.screen, StopScreen)
