"""The launch screen over two real sshds: a command of the user's own starts on both, is listed, read and stopped."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gputop.errors import GputopError
from gputop.hosts.transport import transport_of
from gputop.jobs import identity, job_processes, store
from gputop.over_hosts import watched
from gputop.over_hosts.watched import HostJobs
from gputop.tui.screens.launch import entries, hosts_form
from gputop.tui.screens.launch.screen import LaunchScreen
from gputop.tui.widgets.form import Form
from tests.hosts.machines.sshd import Lab, gputop_at_home, lab, needs_sshd
from tests.patience import DEADLINE_S
from tests.tui.kit import ScreenApp, text_of
from tests.tui.screens.launch.test_launch import virtual_view

assert lab
pytestmark = needs_sshd
SCRIPT = "import os, time\nprint('meets at', os.environ['PET_RDZV_ENDPOINT'], flush=True)\ntime.sleep(600)\n"


async def until(pilot: Pilot[None], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, text_of(pilot.app)
        await pilot.pause(0.05)


async def test_a_command_on_two_hosts(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LIST_S", 0.5)
    (tmp_path / "train.py").write_text(SCRIPT)
    over = HostJobs(("a", "b"), transport_of(lab.via, gputop_at_home()))
    screen = LaunchScreen(recipe=entries.OWN, over=over)
    app = ScreenApp(screen, virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert "No job yet" not in text_of(app), "nobody has answered"
        form = app.screen.query_one(Form)
        assert "Virtual GPU" not in text_of(app), "the GPUs of this machine are none of theirs"
        form.field("command").value = f"{shlex.quote(sys.executable)} train.py"
        form.field("cwd").value = str(tmp_path)
        await pilot.press("f6")
        await pilot.pause()
        assert not store.list_jobs(), "a series was started on this machine"
        form.field(hosts_form.HOSTS).value = "a,refusing"
        await pilot.press("f5")
        await until(pilot, lambda: "Nothing was started." in text_of(app))
        assert "refusing: connection refused." in text_of(app)
        form.field(hosts_form.HOSTS).value = "a b"
        await pilot.press("f5")
        assert form.field(hosts_form.HOSTS).error
        form.field(hosts_form.HOSTS).value = "a,b"
        await pilot.press("f5")
        await until(pilot, lambda: "running: on a, b" in text_of(app))
        await until(pilot, lambda: "a | meets at" in text_of(app) and "b | meets at" in text_of(app))
        (job,) = screen.jobs
        try:
            await pilot.press("x")
            await until(pilot, lambda: "Its processes are ended on a, b" in text_of(app))
            await pilot.press("y")
            await until(pilot, lambda: "stopped on request" in text_of(app))
        finally:
            with suppress(GputopError):  # it has ended, unless the test failed
                over.stop(job)
        parts = [f"{job.id}-n{node}" for node in (0, 1)]
        assert not any(identity.marked(part) or job_processes.of_job(part) for part in parts)
