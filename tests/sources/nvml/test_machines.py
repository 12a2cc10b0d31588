"""Machines that nobody here has met, as others captured them, through the real pynvml, the sampler, a screen and the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputop.cli.output.once import once_text
from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.doctor.preflight.gpu_checks import links
from gputop.preflight import Preflight
from gputop.snapshot import Device, Snapshot
from gputop.tui.drawing.gpus.rows import row_layout, rows_of
from gputop.tui.drawing.line import plain
from tests.nvml_sim import build, environment
from tests.nvml_sim.drivers import lacking
from tests.nvml_sim.from_selftest import WAVES
from tests.nvml_sim.machines import MACHINES, Machine, scenario_of
from tests.nvml_sim.watch import Watch
from tests.tui.kit import view_of

OBSERVED_S, INTERVAL_S = 150, 5


class Readers:
    """A reader per library, which goes from machine to machine."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._running: dict[Path, Watch] = {}

    def read(self, machine: Machine) -> Snapshot:
        library = build(machine.driver)
        path = scenario_of(machine).write(self._place / library.name)
        if library in self._running:
            self._running[library].ask("restart")
        else:
            self._running[library] = Watch(path, environ=environment(path, driver=machine.driver))
        return self._running[library].snapshot()

    def close(self) -> None:
        for watch in self._running.values():
            watch.__exit__()


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    started = Readers(tmp_path_factory.mktemp("machines"))
    yield started
    started.close()


def expected(machine: Machine) -> dict[str, Any]:
    """What ``Device`` has to hold: every value that the machine gives, and None for each that it refuses."""
    values = machine.values
    wanted = {name: values.get(wave, "as on an H100") for wave, name in WAVES.items() if wave in values}
    if not values.get("power"):
        wanted["power_w"] = values.get("power_instant")
    if "nvmlDeviceGetMemoryInfo_v2" in lacking(machine.driver) and machine.memory is not None:
        wanted["memory_reserved_bytes"] = None
        wanted["memory_used_bytes"] = (machine.memory[1] + machine.memory[2]) * 2**20  # the first version counts both as used
    if machine.memory is None:  # the host's, then
        for name in ("memory_total_bytes", "memory_used_bytes"):
            del wanted[name]
    return {name: value if value is None else pytest.approx(value) for name, value in wanted.items()}


def findings(snapshot: Snapshot) -> list[Finding]:
    """What the doctor says after a while of nothing but this, and before a run."""
    doctor = Doctor()
    said: dict[str, Finding] = {}
    for second in range(0, OBSERVED_S, INTERVAL_S):
        later = replace(
            snapshot,
            sequence=second,
            time=snapshot.time + second,
            monotonic_s=snapshot.monotonic_s + second,
            interval_s=INTERVAL_S,
            processes=(),  # those of the machine that runs this test
            process_runs=(),
            runs=(),
            logs=(),
        )
        said |= {finding.id: finding for finding in doctor.observe(later)}
    checks = links(Preflight(), snapshot)
    return [*said.values(), *(check.finding for check in checks if check.finding is not None)]


@pytest.mark.parametrize("name", MACHINES)
def test_a_captured_machine_is_read_whole_and_without_alarm(readers: Readers, name: str) -> None:
    machine = MACHINES[name]
    snapshot = readers.read(machine)
    gpu = snapshot.devices[0]
    assert (gpu.state, gpu.name, gpu.denied) == ("ok", machine.name, ())
    assert snapshot.host.driver_version == f"{machine.driver}-sim"
    wanted = expected(machine)
    if wanted.get("utilization_percent", 0.0) is None:  # from the second reading on, GPM's share of busy time replaces it
        del wanted["utilization_percent"]
        assert gpu.utilization_percent in (None, 0.0)
    assert {name: getattr(gpu, name) for name in wanted} == wanted
    if machine.values.get("energy_base", 0) is None:
        assert gpu.energy_j is None
    assert [mig.mig_label for mig in snapshot.devices[1:]] == [
        f"0:{place} {instance.profile}" for place, instance in enumerate(machine.instances)
    ]

    text = once_text(snapshot)
    assert machine.name in text
    assert_nothing_made_up(gpu, text)
    view = view_of(snapshot)
    rows = [plain(rows_of(view).draw(device, row_layout(120, 6), 120)) for device in snapshot.devices]
    assert all(row.strip() for row in rows)

    # What has processes is about those of other tests: a captured machine has none.
    alarms = [finding for finding in findings(snapshot) if finding.confidence != "possible" and not finding.pids]
    assert not alarms, [(finding.id, finding.confidence, finding.title) for finding in alarms]


def assert_nothing_made_up(gpu: Device, text: str) -> None:
    """What is not known is N/A in the GPU's line, and not 0."""
    line = next(line for line in text.splitlines() if gpu.name is not None and line.endswith(gpu.name))
    assert ("N/A" in line) == (None in (gpu.utilization_percent, gpu.memory_used_bytes, gpu.power_w, gpu.temperature_c))
