"""The sampler's first look: the GPUs in its first line, on request, and only where they answer as usual."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gputop.agent.first_look import OPTION, first_look_in
from gputop.snapshot import Snapshot
from gputop.wire import FormatError
from tests import nvml_sim
from tests.nvml_sim import GIB, Scenario


def first_lines(scenario: Scenario, tmp_path: Path, *options: str) -> list[bytes]:
    """Return the first two lines of a sampler."""
    environment = nvml_sim.environment(scenario.write(tmp_path / "scenario"))
    command = [sys.executable, "-m", "gputop", "agent", "-i", "100ms", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        process.kill()
    return lines


def test_the_first_look_equals_the_snapshot_after_it(tmp_path: Path) -> None:
    scenario = nvml_sim.h100_box(3, busy=2).set(1, utilization=41, memory_used=7 * GIB, power=123.5, temperature=55)
    lines = first_lines(scenario, tmp_path, OPTION)
    look, snapshot = first_look_in(lines[0]), Snapshot.from_json(lines[1])
    assert look is not None
    assert look.host.simulated
    assert (look.host.hostname, look.host.driver_version) == (snapshot.host.hostname, snapshot.host.driver_version)

    def shown(of: Snapshot) -> list[tuple[object, ...]]:
        return [
            (
                d.index,
                d.uuid,
                d.name,
                d.utilization_percent,
                d.memory_used_bytes,
                d.memory_total_bytes,
                d.power_w,
                d.temperature_c,
            )
            for d in of.devices
        ]

    assert shown(look) == shown(snapshot)
    assert shown(look)[1][3:5] == (41.0, 7 * GIB)


@pytest.mark.parametrize(
    "scenario",
    [nvml_sim.lost_gpu(1, 2), nvml_sim.one_hangs(1, 2), nvml_sim.driver_not_loaded(), Scenario()],
    ids=["lost", "hangs", "not-loaded", "no-gpu"],
)
def test_what_is_unusual_waits_for_the_first_snapshot(scenario: Scenario, tmp_path: Path) -> None:
    assert all(Snapshot.from_json(line) for line in first_lines(scenario, tmp_path, OPTION))


def test_the_first_look_is_sent_only_on_request(tmp_path: Path) -> None:
    assert all(Snapshot.from_json(line) for line in first_lines(nvml_sim.h100_box(1), tmp_path))


def test_a_line_of_another_form_is_refused() -> None:
    assert first_look_in(b'{"schema_version": 1}') is None
    for line in (
        b'{"first_look":1}',
        b'{"first_look":{"devices":[{"no":1}]}}',
        b'{"first_look":{',
        b'{"first_look":{"devices":[]}}',
    ):
        with pytest.raises(FormatError):
            first_look_in(line)
