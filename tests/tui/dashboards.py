"""Views and a small app for tests of the dashboard's drawing; the app only shows the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual.message import Message

from gputop.doctor.findings.finding import Fact, Finding
from gputop.history.history import History
from gputop.settings.values import Settings
from gputop.snapshot import Device, Problem, Snapshot
from gputop.tui.screens.dashboard import DashboardScreen
from gputop.tui.state.view import View
from gputop.tui.terminal.palette import THEMES
from gputop.tui.terminal.sparing_app import SparingApp
from gputop.tui.widgets.requests import ProcessChosen, RunChosen, RunOpened, SettingsChanged
from tests import samples

ONE_GPU = Finding(
    id="A07",
    severity="error",
    confidence="certain",
    title="Only GPU 0 is used: all 4 ranks run on it",
    evidence=(
        Fact("LOCAL_RANK is 0-3, but every process sits on GPU 0", [0, 1, 2, 3], "/proc/<pid>/environ"),
        Fact("GPUs 1-7 are idle", 0, "NVML"),
    ),
    cause="No rank chooses its device.",
    fix='torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before the first CUDA call',
    devices=(samples.device(0).uuid,),
)
POWER = Finding("H01", "warning", "likely", "GPU 3 is held at its power limit", (), "", "raise it with nvidia-smi -pl")


def view_of(snapshots: Sequence[Snapshot], findings: tuple[Finding, ...] = (), **settings: object) -> View:
    """The view after these snapshots, on the first run of the last one."""
    history = History()
    for snapshot in snapshots:
        history.observe(snapshot)
    last = snapshots[-1]
    return View(
        last,
        history,
        findings,
        Settings(**settings),  # type: ignore[arg-type]
        run_id=last.runs[0].run_id if last.runs else None,
    )


def healthy(**settings: object) -> View:
    """Four of eight H100s work for a run of four ranks."""
    return view_of([samples.snapshot(tick) for tick in range(60)], **settings)


def one_gpu(**settings: object) -> View:
    """Four ranks on GPU 0, and the doctor has seen it."""
    return view_of([samples.ranks_on_one_gpu(tick) for tick in range(60)], (ONE_GPU, POWER), **settings)


def troubled_devices() -> tuple[Device, ...]:
    """A lost GPU, a silent one, a hot one, one at its limit, one without a reading, and one in two MIG instances."""
    devices = [samples.device(index) for index in range(8)]
    devices[1] = replace(
        devices[1], state="lost", problem=Problem("gpu_lost", "GPU 1 has fallen off the bus.", "Restart the machine.")
    )
    devices[2] = replace(devices[2], state="stale", age_s=12.0)
    devices[3] = replace(devices[3], throttle_reasons=("sw_thermal_slowdown",), temperature_c=86.0)
    devices[4] = replace(devices[4], throttle_reasons=("sw_power_cap",))
    devices[5] = Device(index=5, uuid=devices[5].uuid)
    devices[6] = replace(devices[6], utilization_percent=None, mig_enabled=True)
    for number in range(2):
        devices.append(
            Device(
                index=6,
                uuid=f"MIG-{number}",
                kind="mig",
                parent_uuid=devices[6].uuid,
                mig_label=f"6:{number} 3g.40gb",
                memory_total_bytes=40 * samples.GIB,
                memory_used_bytes=11 * samples.GIB,
            )
        )
    return tuple(devices)


def troubled(**settings: object) -> View:
    """A machine with many problems."""
    devices = troubled_devices()
    return view_of([samples.snapshot(tick, devices=devices) for tick in range(60)], **settings)


def virtual(**settings: object) -> View:
    """The first start on a machine without a GPU."""
    devices = tuple(
        Device(index, f"VIRTUAL-{index}", kind="virtual", name="virtual GPU", utilization_percent=0.0, memory_used_bytes=0)
        for index in range(2)
    )
    problem = Problem("no_driver", "The NVIDIA driver is not loaded.", "Load it with modprobe nvidia.")
    base = samples.snapshot()
    host = replace(base.host, source="virtual", driver_version=None, cuda_version=None, problem=problem)
    snapshots = [samples.snapshot(tick, host=host, devices=devices, processes=(), runs=(), points=()) for tick in range(30)]
    return view_of(snapshots, **settings)


class DashboardApp(SparingApp):
    """Shows one view on the dashboard and records what the dashboard requests."""

    CSS_PATH = "../../gputop/tui/gputop.tcss"

    def __init__(self, view: View, theme: str = "gputop-dark") -> None:
        super().__init__()
        self.view, self.wanted_theme = view, theme
        self.asked: list[Message] = []

    async def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self.wanted_theme
        await self.push_screen(DashboardScreen())
        self.dashboard.show(self.view)

    @property
    def dashboard(self) -> DashboardScreen:
        assert isinstance(self.screen, DashboardScreen)
        return self.screen

    def text(self) -> list[str]:
        """Return what is on the screen, one string per row."""
        return ["".join(segment.text for segment in strip) for strip in self.screen._compositor.render_strips()]

    def on_process_chosen(self, message: ProcessChosen) -> None:
        self.asked.append(message)

    def on_run_opened(self, message: RunOpened) -> None:
        self.asked.append(message)

    def on_run_chosen(self, message: RunChosen) -> None:
        self.asked.append(message)

    def on_settings_changed(self, message: SettingsChanged) -> None:
        self.asked.append(message)
        self.view = replace(self.view, settings=message.settings)
        self.dashboard.show(self.view)
