"""The details and the environment of a process, from the sampler: the real app on the simulated driver, and replays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot

from gputop.agent.feed import ReplayFeed
from gputop.agent.live import LiveFeed
from gputop.jobs import identity
from gputop.process import ProcessAnswer, ProcessDetails, ProcessQuestion
from gputop.settings.values import Settings
from gputop.sources.recording import Recorder
from gputop.tui.app import GputopApp
from gputop.tui.screens.details import EnvironmentScreen, ProcessScreen
from gputop.tui.state.view import View
from gputop.tui.widgets.requests import Asked, ProcessChosen
from tests import nvml_sim, samples
from tests.tui.kit import ScreenApp, text_of, view_of


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(120)"], env={**os.environ, "LOCAL_RANK": "3", "HF_TOKEN": "hunter2"}
    )
    yield process
    process.kill()
    process.wait()


async def until_shown(app: App[None], pilot: Pilot[None], words: str) -> None:
    for _ in range(600):
        if words in text_of(app):
            return
        await pilot.pause(0.05)
    raise AssertionError(text_of(app))


async def test_the_sampler_reads_what_the_screens_show(
    tmp_path: Path, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = nvml_sim.h100_box(2, busy=1, pids=(child.pid,)).write(tmp_path / "scenario")
    for name, value in nvml_sim.environment(scenario).items():
        monkeypatch.setenv(name, value)
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(child.pid, {core})
    feed = LiveFeed(["-i", "100ms"])
    app = GputopApp(feed, Settings(interval_s=0.1))
    try:
        async with app.run_test(size=(160, 90)) as pilot:
            await until_shown(app, pilot, str(child.pid))
            app.post_message(ProcessChosen(child.pid))
            await until_shown(app, pilot, "open files")
            assert f" 1 core: {core}" in text_of(app)
            assert "working directory" in text_of(app)
            await pilot.press("e")
            await until_shown(app, pilot, "LOCAL_RANK=3")
            shown = text_of(app)
            assert shown.index("GPUs, ranks and launcher") < shown.index("LOCAL_RANK=3") < shown.index("Everything else")
            assert "hunter2" not in shown
            feed.close()  # nothing may arrive while run_test takes the screens apart
            await pilot.pause()
    finally:
        feed.close()


async def test_a_replay_has_no_environment_and_says_so(tmp_path: Path) -> None:
    with Recorder(tmp_path / "r") as recorder:
        recorder.write(samples.snapshot(0).to_json())
    app = GputopApp(ReplayFeed(tmp_path / "r"), Settings())
    async with app.run_test(size=(160, 50)) as pilot:
        await until_shown(app, pilot, "4000")
        app.post_message(ProcessChosen(4000))
        await until_shown(app, pilot, "Process 4000")
        await pilot.press("e")
        await until_shown(app, pilot, "This is a recording: its processes are from the past.")


class AskedApp(ScreenApp):
    """Collects a screen's questions, and answers nothing by itself."""

    def __init__(self, screen: EnvironmentScreen | ProcessScreen, view: View) -> None:
        super().__init__(screen, view)
        self.asked: list[ProcessQuestion] = []

    def on_asked(self, message: Asked) -> None:
        self.asked.append(message.question)


def on_this_machine() -> View:
    """A view whose processes are of this machine, now."""
    snapshot = samples.snapshot()
    return view_of(replace(snapshot, host=replace(snapshot.host, boot_id=identity.boot_id())))


@pytest.mark.parametrize("screen", [EnvironmentScreen, ProcessScreen])
@pytest.mark.parametrize("where", ["replay", "other machine", "other namespace"])
async def test_what_is_not_of_this_machine_is_not_asked_for(
    screen: type[EnvironmentScreen] | type[ProcessScreen], where: str
) -> None:
    view = view_of() if where == "other machine" else on_this_machine()
    view = replace(view, feed="replay") if where == "replay" else view
    process = replace(view.snapshot.processes[0], in_namespace=where != "other namespace")
    view = replace(view, snapshot=replace(view.snapshot, processes=(process,)))
    said = {"replay": "recording", "other machine": "another machine", "other namespace": "another container"}[where]
    app = AskedApp(screen(process, view), view)
    async with app.run_test(size=(100, 50)) as pilot:
        await until_shown(app, pilot, said if screen is EnvironmentScreen else "Process 4000")
        await pilot.pause()
        assert app.asked == []


async def test_a_hidden_environment_is_marked_as_hidden() -> None:
    view = on_this_machine()
    screen = EnvironmentScreen(view.snapshot.processes[0], view)
    app = AskedApp(screen, view)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(app, pilot, "reading")
        (question,) = app.asked
        assert question == ProcessQuestion(4000, environment=True)
        screen.take_answer(ProcessAnswer(question))
        await until_shown(app, pilot, "Hidden: the process belongs to ada.")


async def test_a_long_environment_says_what_is_left_out() -> None:
    view = on_this_machine()
    screen = EnvironmentScreen(view.snapshot.processes[0], view)
    app = AskedApp(screen, view)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(app, pilot, "reading")
        screen.take_answer(ProcessAnswer(ProcessQuestion(4000, True), environment={"RANK": "0"}, omitted=7))
        await until_shown(app, pilot, "7 more variables")


async def test_an_unexpected_failure_is_reported() -> None:
    view = on_this_machine()
    for screen in (EnvironmentScreen(view.snapshot.processes[0], view), ProcessScreen(view.snapshot.processes[0], view)):
        app = AskedApp(screen, view)
        async with app.run_test(size=(100, 70)) as pilot:
            await until_shown(app, pilot, "4000")
            question = ProcessQuestion(4000, isinstance(screen, EnvironmentScreen))
            screen.take_answer(ProcessAnswer(question, problem="ZeroDivisionError (details.py:3)"))
            await until_shown(app, pilot, "ZeroDivisionError (details.py:3)")


async def test_the_answer_to_another_question_is_not_shown() -> None:
    view = on_this_machine()
    screen = ProcessScreen(view.snapshot.processes[0], view)
    app = AskedApp(screen, view)
    async with app.run_test(size=(100, 70)) as pilot:
        await until_shown(app, pilot, "Process 4000")
        screen.take_answer(ProcessAnswer(ProcessQuestion(4001), ProcessDetails(threads=77)))
        await pilot.pause()
        assert "Operating system" not in text_of(app)
        screen.take_answer(ProcessAnswer(ProcessQuestion(4000), ProcessDetails(threads=77)))
        await until_shown(app, pilot, "77")
        screen.take_answer(ProcessAnswer(ProcessQuestion(4000)))
        await pilot.pause()
        assert "77" in text_of(app), "the last values stay when the process has ended"


async def test_a_process_shows_its_memory_and_its_share_of_the_gpu_over_time() -> None:
    view = on_this_machine()
    process = next(process for process in view.snapshot.processes if process.devices)
    use = replace(process.devices[0], sm_utilization_percent=40.0)
    for second in range(1, 90):
        busy = replace(process, devices=(replace(use, memory_used_bytes=(1 + second // 45) << 30),))
        snapshot = replace(view.snapshot, sequence=second, time=view.snapshot.time + 1, processes=(busy,), points=())
        view.history.observe(snapshot)
        view = replace(view, snapshot=snapshot)
    app = ScreenApp(ProcessScreen(busy), view)
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(app, pilot, "min 40 mean 40 max 40")
        text = text_of(app)
        assert "GPU 0 memory ─" in text
        assert "2.0 GiB  min 1.0G mean 1.5G max 2.0G" in text, "as little as 20 MiB is told apart from none"
        assert "GPU 0 SM ─" in text
        assert "1m29s ago" in text
