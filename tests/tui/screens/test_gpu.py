"""The GPU screen: a click or Enter on a GPU opens it, keys change the GPU and the range, and a GPU that vanishes says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace

import pytest
from textual.pilot import Pilot

from gputop import units
from gputop.doctor.findings.finding import Finding
from gputop.history.history import History
from gputop.history.series import Series
from gputop.questions import Answer, Question
from gputop.run_questions import GpuPast, GpusAnswer, GpusQuestion
from gputop.settings.values import Settings
from gputop.snapshot import Device, DeviceUse, LaunchEnvironment, Snapshot
from gputop.tui.app import GputopApp
from gputop.tui.drawing.gpus.about import cuda_index, slow_items
from gputop.tui.drawing.gpus.detail import gpu_lines
from gputop.tui.drawing.gpus.over_time import held_means
from gputop.tui.drawing.gpus.pane import draw_gpus, places
from gputop.tui.drawing.line import plain, text_width
from gputop.tui.screens.dashboard import DashboardScreen
from gputop.tui.screens.gpu import GpuScreen
from gputop.tui.state.view import View
from tests import samples
from tests.tui.kit import text_of, view_of
from tests.tui.screens.extreme import Odd
from tests.tui.screens.test_memory import SampleFeed

EIGHT = tuple(samples.device(index, utilization_percent=10.0 * index) for index in range(8))
TWO = EIGHT[:2]


class GivenFeed(SampleFeed):
    """A live feed of the snapshots that the test hands it."""

    def __init__(self) -> None:
        super().__init__()
        self.pcie: list[bool] = []

    def want_pcie(self, wanted: bool) -> None:
        self.pcie.append(wanted)

    def give(self, snapshot: Snapshot) -> None:
        self._waiting.append(snapshot)
        self._notify()


def app_on(feed: GivenFeed) -> GputopApp:
    return GputopApp(feed, Settings())  # type: ignore[arg-type]


async def until_gpu(pilot: Pilot[None], index: int) -> str:
    """Wait for the screen of this GPU and return its text."""
    for _ in range(1500):
        await pilot.pause(0.02)
        screen = pilot.app.screen
        if isinstance(screen, GpuScreen) and screen.device.index == index and f"GPU {index} " in text_of(pilot.app):
            return text_of(pilot.app)
    raise AssertionError(f"no screen of GPU {index}: {text_of(pilot.app)}")


@pytest.mark.parametrize("size", [(160, 50), (80, 24)], ids=str)
async def test_enter_opens_the_chosen_gpu_and_escape_goes_back(size: tuple[int, int]) -> None:
    feed = GivenFeed()
    app = app_on(feed)
    async with app.run_test(size=size) as pilot:
        feed.give(samples.snapshot(devices=EIGHT))
        await pilot.pause()
        await pilot.press("1", "down", "down", "enter")
        text = await until_gpu(pilot, 2)
        assert "20%" in text
        assert EIGHT[2].uuid in text or size == (80, 24)
        await pilot.press("right_square_bracket")
        await until_gpu(pilot, 3)
        await pilot.press("up", "left_square_bracket")
        await until_gpu(pilot, 1)
        assert re.search("Left/Right (range: )?5 min", text_of(app))
        await pilot.press("right")
        assert re.search("Left/Right (range: )?30 min", await until_gpu(pilot, 1))
        assert "30m ago" in text_of(app)
        await pilot.press("right", "right")
        assert re.search("Left/Right (range: )?whole", await until_gpu(pilot, 1))
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, DashboardScreen)


async def test_pcie_throughput_is_measured_while_the_screen_is_open() -> None:
    feed = GivenFeed()
    app = app_on(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(samples.snapshot(devices=EIGHT))
        await pilot.pause()
        assert feed.pcie == []
        await pilot.press("1", "enter")
        await until_gpu(pilot, 0)
        assert feed.pcie == [True]
        await pilot.press("escape")
        await pilot.pause()
        assert feed.pcie == [True, False]


@pytest.mark.parametrize("devices", [EIGHT, TWO], ids=["rows", "graphs"])
async def test_a_click_opens_the_gpu_under_it(devices: tuple[Device, ...]) -> None:
    feed = GivenFeed()
    app = app_on(feed)
    async with app.run_test(size=(160, 50)) as pilot:
        feed.give(samples.snapshot(devices=devices))
        await pilot.pause()
        pane = app.screen.gpus  # type: ignore[attr-defined]
        assert isinstance(app.view, View)
        held = places(app.view, *pane.inner_size)[1]
        await pilot.click(pane, offset=(held.start + 5, held.line + 1))
        await until_gpu(pilot, 1)


async def test_a_gpu_that_vanishes_says_so_and_its_neighbors_stay_in_reach() -> None:
    feed = GivenFeed()
    app = app_on(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(samples.snapshot(devices=EIGHT))
        await pilot.pause()
        await pilot.press("1", "down", "enter")
        await until_gpu(pilot, 1)
        feed.give(samples.snapshot(1, devices=(EIGHT[0], *EIGHT[2:])))
        for _ in range(1500):
            await pilot.pause(0.02)
            if "no longer listed" in text_of(app):
                break
        text = text_of(app)
        assert "no longer listed" in text
        assert "GONE" in text
        await pilot.press("down")
        assert "no longer listed" not in await until_gpu(pilot, 2)


@pytest.mark.parametrize("count", [2, 3, 8, 12, 20, 64])
@pytest.mark.parametrize("density", ["auto", "full"])
def test_each_gpu_has_a_place_where_its_row_is_drawn(count: int, density: str) -> None:
    devices = tuple(samples.device(index) for index in range(count))
    view = view_of(samples.snapshot(devices=devices), settings=Settings(density=density))
    lines = [plain(part) for part in draw_gpus(view, 158, 16).lines]
    found = places(view, 158, 16)
    assert [held.device.index for held in found] == list(range(count))
    for held in found:
        assert lines[held.line][held.start : held.end].split()[0].lstrip("▸") == str(held.device.index)


def everything(device: Device, **changes: object) -> str:
    view = view_of(samples.snapshot(devices=(device,)), **changes)
    return "\n".join(plain(part) for part in gpu_lines(view, device, 1, 200, 60))


def test_unknown_is_not_zero() -> None:
    text = everything(Device(0, "GPU-0"))
    assert "N/A" in text
    assert " 0 " not in text.replace("physical index 0 ", "").replace("GPU 0", "")


def test_every_reading_of_a_gpu_is_shown() -> None:
    kinds = ("int | None", "float | None")
    numbers = {field.name: 1000 + place for place, field in enumerate(fields(Device)) if field.type in kinds}
    device = replace(samples.device(0), **{name: value for name, value in numbers.items() if not name.endswith("_bytes")})
    text = everything(device)
    told = {name for name, value in numbers.items() if str(value) in text}
    otherwise = {name for name in numbers if name.endswith(("_bytes", "_per_s", "_ns"))} | {"age_s", "energy_j"}
    assert set(numbers) - told - otherwise == set()
    device = samples.device(0, pcie_rx_bytes_per_s=1.1e9, nvlink_tx_bytes_per_s=2.2e9, throttle_sync_boost_ns=61_000_000_000)
    text = everything(replace(device, energy_j=3.6e6, xid_errors=((samples.EPOCH, 79),), pcie_throughput_source="gpm"))
    for words in ("PCIe in 1.1 GB/s", "NVLink out 2.2 GB/s", "by sync boost, in all 1m01s", "1.00 kWh", "79 at", "measured by"):
        assert words in text


def test_what_slows_a_gpu_is_named_once_with_its_total() -> None:
    device = samples.device(0, throttle_reasons=("sw_power_cap",), throttle_power_ns=int(90e9), throttle_sync_boost_ns=0)
    (first, *others) = slow_items(view_of(samples.snapshot(devices=(device,))), device)
    assert re.fullmatch(r"at the power limit since before .*, in all 1m30s", first[1] or "")
    assert not any("power limit" in f"{name} {text}" for name, text, *_ in others)
    assert ("never", "by sync boost") in [item[:2] for item in others]


def test_what_slows_a_gpu_is_named_with_its_beginning() -> None:
    history, uuid = History(), samples.device(0).uuid
    for tick in range(10):
        reasons = ("gpu_idle",) if tick < 4 else ("hw_thermal_slowdown", "sw_power_cap")[: 1 + tick % 2]
        shown = samples.snapshot(tick, devices=(samples.device(0, throttle_reasons=reasons),))
        history.observe(shown)
    view = replace(view_of(shown), history=history)
    text = "\n".join(plain(part) for part in gpu_lines(view, shown.devices[0], 1, 160, 50))
    began = view.history.throttling(uuid)[1][0]
    assert began == samples.EPOCH + 4
    assert f"slowed by heat since {units.clock(began)}" in text
    assert f"at the power limit since {units.clock(samples.EPOCH + 9)}" in text


def over_five_minutes(reasons_at: Callable[[int], tuple[str, ...]], **changes: object) -> View:
    """A GPU with these throttle reasons in each of 300 seconds."""
    history = History()
    for tick in range(300):
        shown = samples.snapshot(tick, devices=(samples.device(0, throttle_reasons=reasons_at(tick), **changes),))
        history.observe(shown)
    return replace(view_of(shown), history=history)


def test_a_strip_shows_when_a_gpu_was_slowed() -> None:
    def reasons_at(tick: int) -> tuple[str, ...]:
        return ("hw_thermal_slowdown", "sw_power_cap") if 150 <= tick < 210 else ("sw_power_cap",) if tick >= 240 else ()

    view = over_five_minutes(reasons_at)
    lines = gpu_lines(view, view.snapshot.devices[0], 1, 160, 50)
    place = next(place for place, row in enumerate(lines) if "▬" in plain(row))
    half = plain(lines[place])[:79].rstrip()
    marked = [place / len(half) for place, mark in enumerate(half) if mark == "▬"]
    assert marked[0] == pytest.approx(0.5, abs=0.03)
    assert len(marked) / len(half) == pytest.approx(0.4, abs=0.03)
    styles = {span.style for span in lines[place] if "▬" in span.text}
    assert styles == {"bad", "dim"}, "the worse of two causes, and the harmless one alone"
    below = plain(lines[place + 1])
    assert below.startswith("5m ago")
    assert "▬ slowed by heat  ▬ at the power limit" in below
    calm = over_five_minutes(lambda tick: ("gpu_idle",))
    assert "▬" not in "\n".join(map(plain, gpu_lines(calm, calm.snapshot.devices[0], 1, 160, 50)))


def test_the_traffic_of_the_links_is_drawn_over_time() -> None:
    links = {
        "nvlink_rx_bytes_per_s": 40e9,
        "nvlink_tx_bytes_per_s": 41e9,
        "pcie_rx_bytes_per_s": 0.0,
        "pcie_tx_bytes_per_s": 0.0,
    }
    view = over_five_minutes(lambda tick: (), **links)
    text = "\n".join(map(plain, gpu_lines(view, view.snapshot.devices[0], 1, 160, 60)))
    assert re.search(r"NVLink ─+ 81.0 GB/s  min 81.0 mean 81.0 max 81.0", text)
    assert re.search(r"PCIe ─+ 0.0 GB/s  min 0.0 mean 0.0 max 0.0", text)
    assert "NVLink ─" not in everything(samples.device(0))


def memory_line(allocated_gib: float | None, reserved_gib: float, devices: int = 1) -> str:
    """What a GPU's screen says of the memory of a rank that holds 70.5 GiB, after its allocator stated this."""
    base = samples.snapshot()
    run, (process, *others) = base.runs[0], base.processes
    stated = {"allocated_bytes": None if allocated_gib is None else int(allocated_gib * samples.GIB)}
    fact = {**stated, "reserved_bytes": int(reserved_gib * samples.GIB), "total_bytes": 80 * samples.GIB}
    ranks = tuple(replace(rank, pid=process.pid, facts={"cuda_memory": fact}) if not rank.rank else rank for rank in run.ranks)
    process = replace(process, devices=process.devices * devices)
    shown = replace(base, runs=(replace(run, ranks=ranks),), processes=(process, *others))
    lines = gpu_lines(view_of(shown), shown.devices[0], 1, 200, 50)
    return next(text for part in lines if (text := plain(part)).startswith("Memory"))


def test_the_memory_of_a_run_is_divided_as_its_allocator_says() -> None:
    said = memory_line(51.2, 64.1)
    assert "this run 70.5 GiB · tensors 51.2 GiB · cached 12.9 GiB · context 6.4 GiB · others 0.0 GiB" in said
    for unknown in (memory_line(None, 64.1), memory_line(51.2, 71.0), memory_line(51.2, 64.1, devices=2)):
        assert "tensors" not in unknown


def test_causes_that_never_slowed_a_gpu_are_one_remark() -> None:
    counters = {"throttle_power_ns": 38 * 10**9, "throttle_thermal_sw_ns": 0, "throttle_sync_boost_ns": 0}
    text = everything(samples.device(0, throttle_reasons=(), throttle_power_brake_ns=None, **counters))
    assert "at the power limit, in all 38s" in text
    assert "never by heat (driver) or by sync boost" in text
    assert "in all 0s" not in text
    assert "at the power brake" in text.partition("N/A")[2]


def test_findings_about_other_gpus_are_left_out() -> None:
    devices = EIGHT[:2]
    mine = Finding("A", "error", "certain", "the first one", (), "", "fix it", devices=(devices[0].uuid,))
    view = view_of(samples.snapshot(devices=devices), findings=(mine, replace(mine, title="the second one", devices=("x",))))
    text = "\n".join(plain(part) for part in gpu_lines(view, devices[0], 1, 160, 50))
    assert "the first one" in text
    assert "the second one" not in text
    assert "no problem found with this GPU" in "\n".join(plain(part) for part in gpu_lines(view, devices[1], 1, 160, 50))


def test_the_cuda_index_follows_the_mask() -> None:
    environment = LaunchEnvironment(rank=0, cuda_visible_devices="6,2")
    process = samples.rank_process(0, (DeviceUse(EIGHT[2].uuid),), environment=environment)
    view = view_of(samples.snapshot(devices=EIGHT, processes=(process,)))
    assert cuda_index(view, EIGHT[2]) == "1 for rank 0"
    assert cuda_index(view, EIGHT[6]) is None
    mixed = (replace(EIGHT[0], name="another model"), *EIGHT[1:])
    assert cuda_index(view_of(samples.snapshot(devices=mixed, processes=(process,))), EIGHT[2]) is None


def test_a_mig_instance_names_its_gpu_and_the_gpu_its_instances_processes() -> None:
    whole = samples.device(0, mig_enabled=True, utilization_percent=None)
    part = Device(1, "MIG-1", "NVIDIA H100 MIG 1g.10gb", "mig", whole.uuid, "0:3 1g.10gb", memory_used_bytes=samples.GIB)
    process = samples.rank_process(0, (DeviceUse(part.uuid, samples.GIB),))
    view = view_of(samples.snapshot(devices=(whole, part), processes=(process,)))
    for device in (whole, part):
        assert "train.py" in "\n".join(plain(line) for line in gpu_lines(view, device, 1, 160, 50))
    assert "part of GPU 0" in "\n".join(plain(line) for line in gpu_lines(view, part, 1, 160, 50))


def test_a_value_holds_until_the_next_but_not_for_ever() -> None:
    series = Series()
    for x, value in ((0.0, 1.0), (2.0, 3.0), (10.0, 5.0)):
        series.append(x, value)
    assert held_means(series, 0, 12, 6, 3.0) == [1.0, 3.0, 3.0, None, None, 5.0]
    assert held_means(None, 0, 12, 2, 3.0) == [None, None]
    assert held_means(series, float("nan"), 12, 2, 3.0) == [None, None]


@pytest.mark.parametrize("seed", range(4))
def test_no_value_breaks_the_lines(seed: int) -> None:
    view = Odd(seed).view()
    for device in view.snapshot.devices[:3]:
        for span in range(4):
            for width in (1, 40, 80):
                assert all(text_width(plain(part)) <= width for part in gpu_lines(view, device, span, width, 24))


async def test_the_whole_run_begins_with_what_was_recorded_of_it() -> None:
    feed = GivenFeed()
    asked: list[Question] = []
    answers: list[Answer] = []
    feed.ask = asked.append  # type: ignore[method-assign]
    feed.take_answers = lambda: [answers.pop()] if answers else []  # type: ignore[method-assign]
    app = app_on(feed)
    now = samples.snapshot(devices=TWO)
    run = replace(now.runs[0], created_at=now.time - 3600)
    async with app.run_test(size=(160, 50)) as pilot:
        feed.give(replace(now, runs=(run,)))
        await pilot.pause()
        await pilot.press("1", "enter")
        await until_gpu(pilot, 0)
        await pilot.press("right", "right")
        assert "range: whole run" in await until_gpu(pilot, 0)
        assert "1h00m ago" not in text_of(app)
        assert GpusQuestion((run.run_id,)) in asked
        times = tuple(now.time - 3600 + 5 * turn for turn in range(700))
        past = GpuPast(run.run_id, TWO[0].uuid, 0, times, (7.0,) * 700, (1 << 30,) * 700, (None,) * 700)
        answers.append(GpusAnswer(GpusQuestion((run.run_id,)), (past,)))
        feed.give(replace(now, sequence=1, time=now.time + 1, runs=(run,)))
        for _ in range(1500):
            await pilot.pause(0.02)
            if "1h00m ago" in text_of(app):
                break
        text = await until_gpu(pilot, 0)
        assert "1h00m ago" in text
        assert "min 0 mean 7 max 7" in text


def test_a_gpu_of_other_runs_says_nothing_of_the_chosen_one() -> None:
    """It said "this run 0.0 GiB" under a header that named another run."""
    shown = replace(samples.snapshot(), runs=(), points=())
    lines = gpu_lines(replace(view_of(shown), run_id=None), shown.devices[0], 1, 200, 50)
    said = next(text for part in lines if (text := plain(part)).startswith("Memory"))
    assert "this run" not in said
    assert "others 70.5 GiB" in said
