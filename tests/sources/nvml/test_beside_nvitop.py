"""nvitop on the same simulated driver shows what gputop's source reads: the simulation is faithful to more than ourselves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nvml_sim import GIB, Scenario, a100_box, environment, h100_box, mig_box
from tests.nvml_sim.watch import ROOT, Watch

NVITOP = """
import json
from nvitop import Device, PhysicalDevice

def of(device):
    memory = device.memory_info()
    known = lambda value: value if isinstance(value, (int, float)) else None
    return {
        "uuid": device.uuid(),
        "total": known(memory.total),
        "used": known(memory.used),
        "utilization": known(device.gpu_utilization()),
        "memory_activity": known(device.memory_utilization()),
        "power_mw": known(device.power_usage()),
        "temperature": known(device.temperature()),
        "sm_clock": known(device.sm_clock()),
        "processes": {
            pid: [known(process.gpu_memory()), known(process.gpu_sm_utilization()), process.type]
            for pid, process in device.processes().items()
        },
    }

found = []
for device in PhysicalDevice.all():
    found.append(of(device))
    found += [of(mig) for mig in device.mig_devices()]
print(json.dumps(found))
"""


@pytest.fixture
def pids() -> Iterator[list[int]]:
    """Three processes that live as long as the test."""
    sleepers = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(3)]
    yield [sleeper.pid for sleeper in sleepers]
    for sleeper in sleepers:
        sleeper.kill()
        sleeper.communicate()


def nvitop(path: Path, driver: str | None = None) -> list[dict[str, Any]]:
    environ = environment(path, driver=driver)
    result = subprocess.run([sys.executable, "-c", NVITOP], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=180)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def gputop(path: Path, driver: str | None = None) -> list[dict[str, Any]]:
    """What our source reads, in the same form."""
    with Watch(path, environ=environment(path, driver=driver)) as watch:
        watch.settled()
        reading = watch.until(lambda found: all(device.memory_total_bytes is not None for device in found.devices))
    found = []
    for device in reading.devices:
        uses = {
            str(pid): [use.memory_used_bytes, use.sm_utilization_percent, use.contexts]
            for pid, all_uses in reading.uses.items()
            for use in all_uses
            if use.device_uuid == device.uuid
        }
        power_mw = None if device.power_w is None else round(device.power_w * 1000)
        found.append(
            {
                "uuid": device.uuid,
                "total": device.memory_total_bytes,
                "used": device.memory_used_bytes,
                "utilization": device.utilization_percent if device.kind == "gpu" else None,
                "memory_activity": device.memory_activity_percent,
                "power_mw": power_mw,
                "temperature": device.temperature_c,
                "sm_clock": device.sm_clock_mhz,
                "processes": uses,
            }
        )
    return found


def training_box(pids: list[int]) -> Scenario:
    """Different readings on every GPU, so that no two can be mistaken for each other."""
    scenario = h100_box(8, busy=5)
    for index in range(8):
        scenario.set(index, utilization=12 * index, memory_used=(1 + 9 * index) * GIB + index, temperature=30 + index)
        scenario.set(index, power=100 + 61.5 * index, memory_utilization=3 * index, sm_clock=345 + 100 * index)
    scenario.process(0, pids[0], 8 * GIB, 31.0).process(1, pids[1], 9 * GIB, 77.0).process(3, pids[1], 10 * GIB, 12.0)
    return scenario.process(1, pids[2], 0.5 * GIB, 0.0).process(4, pids[2], GIB, 5.0, "G")


def test_nvitop_agrees_on_a_box_of_eight(tmp_path: Path, pids: list[int]) -> None:
    path = training_box(pids).write(tmp_path / "s")
    theirs, ours = nvitop(path), gputop(path)
    assert len(theirs) == 8
    assert theirs[1]["processes"] == {str(pids[1]): [9 * GIB, 77, "C"], str(pids[2]): [GIB // 2, 0, "C"]}
    assert ours == theirs


def test_nvitop_agrees_on_an_old_driver(tmp_path: Path, pids: list[int]) -> None:
    path = a100_box(2).on_driver("450.80.02", 11000).process(1, pids[0], 8 * GIB, 31.0).write(tmp_path / "s")
    assert gputop(path, driver="450.80.02") == nvitop(path, driver="450.80.02")


def test_nvitop_agrees_on_mig_memory_and_processes(tmp_path: Path, pids: list[int]) -> None:
    scenario = mig_box().process(0, pids[0], 8 * GIB, types="C", mig=0).process(0, pids[1], 2 * GIB, types="C", mig=1)
    path = scenario.write(tmp_path / "s")
    compared = ("uuid", "total", "used")
    theirs, ours = nvitop(path), gputop(path)
    assert len(theirs) == 4
    assert [[device[key] for key in compared] for device in ours] == [[device[key] for key in compared] for device in theirs]
    for place in (1, 2):
        memory_of = [{pid: use[0] for pid, use in found[place]["processes"].items()} for found in (ours, theirs)]
        assert memory_of[0] == memory_of[1] != {}


def test_nvitops_screen_shows_the_same(tmp_path: Path, pids: list[int]) -> None:
    path = training_box(pids).write(tmp_path / "s")
    result = subprocess.run(
        [sys.executable, "-m", "nvitop", "-1", "--no-unicode"],
        env=environment(path) | {"COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stderr
    rows = re.findall(r"([\d.]+)([GM]iB) / +([\d.]+)GiB \| +(\d+)%", result.stdout)
    shown = [
        (float(used) if unit == "GiB" else float(used) / 1024, float(total), int(busy)) for used, unit, total, busy in rows
    ]
    ours = gputop(path)
    assert shown == [
        (pytest.approx(device["used"] / GIB, abs=0.01), device["total"] / GIB, device["utilization"]) for device in ours
    ]
    for device in ours:
        for pid in device["processes"]:
            assert re.search(rf"\b{pid}\b", result.stdout)
