"""How many GPUs work, and what the line about it calls good: values known by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.snapshot import Device, LaunchEnvironment, Problem
from gputop.tui.drawing.balance import balance, balance_line
from gputop.tui.drawing.line import plain
from gputop.tui.state.view import View
from tests import samples
from tests.tui import dashboards


def busy_box(*changed: Device) -> View:
    """Eight GPUs at work without a run; ``changed`` replace those of their indices."""
    devices = [samples.device(index) for index in range(8)]
    for device in changed:
        devices[device.index] = device
    quiet = [samples.snapshot(tick, devices=tuple(devices), runs=(), processes=(), points=()) for tick in range(12)]
    return dashboards.view_of(quiet)


def styles(view: View) -> set[str]:
    """The styles of what the line says about the work."""
    return {span.style for span in balance_line(view, 120) if "GPU" in span.text or "use" in span.text}


def test_balance_counts_devices_that_the_run_could_use() -> None:
    found = balance(dashboards.one_gpu())
    assert (found.working, len(found.devices)) == (1, 8)
    assert found.evenness == pytest.approx(1 / 8)
    assert plain(balance_line(dashboards.one_gpu(), 80)) == "balance ▕█       ▏ 1 of 8 GPUs work · mean use 13 % of the busiest"


def test_balance_of_a_run_on_half_of_the_machine_is_full() -> None:
    assert plain(balance_line(dashboards.healthy(), 80)) == "balance ▕████▏ 4 of 4 GPUs work · mean use 100 % of the busiest"


def test_balance_keeps_to_the_devices_that_the_launch_named() -> None:
    masked = LaunchEnvironment(rank=0, cuda_visible_devices="0,1")
    snapshots = []
    for tick in range(20):
        snapshot = samples.ranks_on_one_gpu(tick)
        processes = tuple(replace(process, environment=masked) for process in snapshot.processes)
        snapshots.append(replace(snapshot, processes=processes))
    assert "1 of 2 GPUs work · mean use 50 % of the busiest" in plain(balance_line(dashboards.view_of(snapshots), 80))


def test_balance_is_unknown_where_nothing_can_be_read() -> None:
    devices = tuple(samples.device(index, utilization_percent=None) for index in range(2))
    view = dashboards.view_of([samples.snapshot(devices=devices, runs=(), processes=())])
    assert plain(balance_line(view, 80)).startswith("balance N/A")


def test_old_readings_do_not_count_in_the_balance() -> None:
    busy = [samples.snapshot(tick, runs=()) for tick in range(5)]
    idle = tuple(samples.idle_device(index) for index in range(8))
    later = [samples.snapshot(tick, devices=idle, runs=()) for tick in range(20, 40)]
    assert "0 of 8 GPUs work" in plain(balance_line(dashboards.view_of([*busy, *later]), 80))


def test_only_a_machine_without_any_trouble_is_green() -> None:
    assert styles(busy_box()) == {"ok"}

    lost = samples.device(1, state="lost", problem=Problem("gpu_lost", "GPU 1 is gone.", "Restart."))
    view = busy_box(lost)
    assert "7 of 8 GPUs work · 1 lost" in plain(balance_line(view, 120))
    assert styles(view) == {"bad"}

    slow = samples.device(3, sm_clock_mhz=870.0)
    view = busy_box(slow)
    assert "8 of 8 GPUs work · 1 slow" in plain(balance_line(view, 120))
    assert styles(view) == {"warn"}

    hot = samples.device(3, throttle_reasons=("hw_thermal_slowdown",))
    assert styles(busy_box(hot)) == {"warn"}
    at_its_limit = samples.device(3, throttle_reasons=("sw_power_cap",), sm_clock_mhz=1600.0)
    assert styles(busy_box(at_its_limit)) == {"ok"}


def test_a_lost_gpu_counts_although_no_process_is_listed_on_it() -> None:
    lost = samples.device(7, state="lost")
    snapshots = [samples.snapshot(tick, devices=(*samples.snapshot().devices[:7], lost)) for tick in range(12)]
    assert "4 of 5 GPUs work · 1 lost" in plain(balance_line(dashboards.view_of(snapshots), 120))


def test_instances_without_a_known_utilization_are_no_good_news() -> None:
    parent = samples.device(0, uuid="parent", mig_enabled=True)
    instances = tuple(Device(0, f"MIG-{n}", kind="mig", parent_uuid="parent", mig_label=f"0:{n} 3g.40gb") for n in range(2))
    devices = (parent, *instances, samples.device(1))
    view = dashboards.view_of([samples.snapshot(tick, devices=devices, runs=(), processes=()) for tick in range(12)])
    assert plain(balance_line(view, 120)) == "balance ▕??█▏ 1 of 3 GPUs work · 2 unknown"
    assert styles(view) == {"dim"}
