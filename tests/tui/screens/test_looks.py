"""What the screens look like at the three sizes, as pictures; after an intended change, run with --snapshot-update."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from gputop.errors import GputopError
from gputop.history.history import History
from gputop.hosts.transport import transport_of
from gputop.jobs import store
from gputop.jobs.output import logs
from gputop.jobs.slurm_state import SlurmJob
from gputop.jobs.store import Job
from gputop.over_hosts.watched import HostJobs, HostsLog
from gputop.recipes import own_commands
from gputop.recipes.own_commands import OwnCommand
from gputop.settings.values import Settings
from gputop.snapshot import Device
from gputop.tui.screens.details import ProcessScreen
from gputop.tui.screens.doctor import DoctorScreen
from gputop.tui.screens.gpu import GpuScreen
from gputop.tui.screens.help import HelpScreen
from gputop.tui.screens.launch import entries
from gputop.tui.screens.launch.screen import LaunchScreen
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.screens.settings import SettingsScreen
from gputop.tui.screens.signalling import Recipient
from gputop.tui.screens.signals import SignalScreen
from gputop.tui.screens.stop import StopScreen
from gputop.tui.screens.stopping import StopTarget
from gputop.tui.screens.where import WhereScreen
from gputop.tui.state.view import View
from tests import samples
from tests.tui.kit import SIZES, ScreenApp, view_of
from tests.tui.screens.test_text import A07, B02, UUIDS
from tests.tui.screens.test_where import answer as whereabouts

Look = Callable[..., bool]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Clocks on the pictures show the same hour everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/ada/.config")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def settle(pilot: Pilot[None]) -> None:
    for _ in range(3):
        await pilot.pause()


def view(**changes: object) -> View:
    return view_of(samples.ranks_on_one_gpu(), findings=(A07, B02), **changes)


def compare(snap_compare: Look, screen: Screen[Any], size: tuple[int, int], shown: View, press: tuple[str, ...] = ()) -> None:
    app = ScreenApp(screen, shown)
    app.mono = not shown.settings.color

    async def before(pilot: Pilot[None]) -> None:
        await settle(pilot)
        for key in press:
            await pilot.press(key)
        await settle(pilot)
        if isinstance(screen, LaunchScreen):
            # The first poll finds the log of the chosen job, the second shows it; by themselves, both come within a second.
            for _ in range(2):
                screen.poll()
                await app.workers.wait_for_complete()
                await settle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=before)


@pytest.fixture
def three_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs with fixed times; what real ones do is tested in test_launch.py."""
    listed = [
        Job(
            "20260921-141300-aaaa", "lenet-ddp", "running", (), Path(), "ddp", UUIDS[:4], {"model": "lenet"}, samples.EPOCH - 20
        ),
        Job(
            "20260921-140000-bbbb",
            "lenet-single",
            "finished",
            (),
            Path(),
            "single",
            UUIDS[:1],
            {"model": "lenet"},
            samples.EPOCH - 800,
            samples.EPOCH - 700,
            0,
        ),
        Job(
            "20260921-135000-cccc",
            "lenet-dp-small-batch",
            "failed",
            (),
            Path(),
            "faults/dp-small-batch",
            UUIDS[:2],
            {"model": "lenet"},
            samples.EPOCH - 1400,
            samples.EPOCH - 1390,
            1,
        ),
    ]

    class Log:
        def __init__(self, job_id: str, rank: int | None = None) -> None:
            self.job_id = job_id
            self.pending = ""
            self._lines = ["rank 0 of 4 trains on cuda:0", "epoch 0 step 20/5000 loss 2.1000 460 samples/s"]

        def poll(self) -> list[str]:
            lines, self._lines = self._lines, []
            return lines

    monkeypatch.setattr(store, "read_jobs", lambda: store.Listing(tuple(listed), ()))
    monkeypatch.setattr(store, "list_jobs", lambda: list(listed))
    monkeypatch.setattr(logs, "LogFollower", Log)
    monkeypatch.setattr(entries, "has_slurm", lambda: False)


def jobs_view() -> View:
    base = samples.snapshot()
    speeds = {"20260921-141300-aaaa": 4, "20260921-140000-bbbb": 1}
    runs = tuple(samples.run(world_size=size, run_id=job_id, job_id=job_id) for job_id, size in speeds.items())
    return view_of(replace(base, runs=runs))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_launch(snap_compare: Look, three_jobs: None, size: tuple[int, int]) -> None:
    compare(snap_compare, LaunchScreen(), size, jobs_view(), ("enter", "down"))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_launch_over_slurm(
    snap_compare: Look, three_jobs: None, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = OwnCommand("mine", "torchrun --nproc-per-node=gpu train.py", "/data/work", {}, 1, "-N2 -p gpu")
    monkeypatch.setattr(own_commands, "load", lambda: (own,))
    monkeypatch.setattr(entries, "has_slurm", lambda: True)
    running = SlurmJob("4242", word="RUNNING", nodes="gpu[07-08]")
    waiting = SlurmJob("4250", word="PENDING", reason="Resources")
    here = [
        Job("20260921-141301-dddd", "resnet50", "running", (), Path(), started_at=samples.EPOCH - 60, slurm=running),
        Job("20260921-141302-eeee", "mine", "waiting", (), Path(), started_at=samples.EPOCH - 9, slurm=waiting),
    ]
    listed = store.read_jobs()
    monkeypatch.setattr(store, "read_jobs", lambda: replace(listed, jobs=(*reversed(here), *listed.jobs)))
    monkeypatch.setattr(store, "list_jobs", list)
    compare(snap_compare, LaunchScreen(recipe="own mine"), size, jobs_view(), ("3", "down"))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_launch_over_hosts(snap_compare: Look, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    begun = samples.EPOCH - 60
    both = ("gpu1", "gpu2")
    failed = "gpu1 running, gpu2 failed"
    there = (
        Job("20260921-141301-dddd", "ddp", "running", (), Path(), "ddp", UUIDS[:4], started_at=begun, hosts=both),
        Job("20260921-141201-cccc", "mine", "running", (), Path(), started_at=begun - 60, hosts=both, problem=failed),
    )
    unread = GputopError("gpu3: connection refused. It refuses the connection: no sshd listens on that port.")
    monkeypatch.setattr(HostJobs, "read_jobs", lambda self: store.Listing(there, (unread,)))
    monkeypatch.setattr(HostsLog, "poll", lambda self: [])
    over = HostJobs((*both, "gpu3"), transport_of())
    compare(snap_compare, LaunchScreen(recipe="ddp", over=over), size, jobs_view(), ("3", "down"))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_run(snap_compare: Look, size: tuple[int, int]) -> None:
    compare(snap_compare, RunScreen("run-1"), size, view(), ("r",))


@pytest.mark.parametrize(("theme", "size"), [("light", (160, 50)), ("colorblind", (80, 24)), ("mono", (160, 50))], ids=str)
def test_run_in_other_themes(snap_compare: Look, theme: str, size: tuple[int, int]) -> None:
    compare(snap_compare, RunScreen("run-1"), size, view(settings=Settings(theme=theme)), ("r",))


def test_run_in_ascii_without_colour(snap_compare: Look) -> None:
    compare(snap_compare, RunScreen("run-1"), (100, 30), view(settings=Settings(ascii=True, color=False)))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_doctor(snap_compare: Look, size: tuple[int, int]) -> None:
    compare(snap_compare, DoctorScreen(), size, view())


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_where(snap_compare: Look, size: tuple[int, int]) -> None:
    shown = view()
    screen = WhereScreen(shown.snapshot.runs[0])
    screen.answer = whereabouts(shown.snapshot.runs[0].run_id)
    compare(snap_compare, screen, size, shown)


def test_help(snap_compare: Look) -> None:
    compare(snap_compare, HelpScreen(), (160, 50), view())


def test_process(snap_compare: Look) -> None:
    shown = view()
    compare(snap_compare, ProcessScreen(shown.snapshot.processes[1]), (100, 30), shown)


def test_settings(snap_compare: Look) -> None:
    shown = view()
    compare(snap_compare, SettingsScreen(shown, lambda settings: None), (80, 24), shown)


def test_stop(snap_compare: Look) -> None:
    target = StopTarget("run resnet18-ddp through its launcher", "SIGTERM goes to torchrun and its 4 ranks end with it.", 3999)
    compare(snap_compare, StopScreen(target), (80, 24), view())


def test_signals(snap_compare: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gputop.tui.screens.signals.recipient", lambda process, view: Recipient(process.pid, "ada", "python train.py")
    )
    compare(snap_compare, SignalScreen(view().snapshot.processes[:2], view()), (80, 24), view())


def hot_gpu() -> View:
    """Four minutes of a GPU that works, and one in which heat slows it."""
    history = History()
    hot = {"throttle_reasons": ("hw_thermal_slowdown",), "temperature_c": 88.0, "sm_clock_mhz": 870.0, "power_w": 410.0}
    for tick in range(300):
        known = {"nvlinks_active": 18, "numa_node": 1, "cpu_affinity": tuple(range(48)), "ecc_corrected": 0, "energy_j": 3.6e7}
        devices = (samples.device(0, **(hot if tick >= 240 else {}), **known), *(samples.device(index) for index in (1, 2, 3)))
        shown = samples.snapshot(tick, devices=devices, points=())
        history.observe(shown)
    finding = replace(B02, title="GPU 0 is throttled by heat", devices=(devices[0].uuid,))
    return View(shown, history, (finding,), run_id="run-1")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gpu(snap_compare: Look, size: tuple[int, int]) -> None:
    shown = hot_gpu()
    compare(snap_compare, GpuScreen(shown.snapshot.devices[0]), size, shown)


def test_virtual_gpu_in_ascii_without_color(snap_compare: Look) -> None:
    devices = tuple(Device(index, f"VGPU-{index}", "Virtual GPU", "virtual", utilization_percent=40.0) for index in range(4))
    shown = view_of(samples.snapshot(devices=devices, processes=()), settings=Settings(ascii=True, color=False))
    compare(snap_compare, GpuScreen(devices[1]), (80, 24), shown)
