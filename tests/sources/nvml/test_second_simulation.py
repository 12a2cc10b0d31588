"""Reads the machines of a simulation that is not ours: NVIDIA's mock NVML (k8s-test-infra, ``pkg/gpu/mocknvml``).

``make second-nvml`` fetches and builds the pinned commit, and runs this file; without that it is skipped. What is expected
comes from the mock's own configuration files.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gputop.snapshot import Device, Snapshot

PLACE = Path(os.environ.get("GPUTOP_MOCK_NVML", Path(__file__).parents[3] / ".mocknvml"))
LIBRARY = PLACE / "lib"
CONFIGS = PLACE / "configs"
PROFILES = ("a100", "b200", "gb200", "gb300", "h100", "l40s", "t4")

pytestmark = pytest.mark.skipif(
    not (LIBRARY / "libnvidia-ml.so.1").exists(), reason="NVIDIA's mock NVML is not built here: make second-nvml builds it"
)


def text_of(profile: str) -> str:
    return (CONFIGS / f"mock-nvml-config-{profile}.yaml").read_text()


def stated(text: str, key: str) -> Any:
    """The first value of a key in the mock's YAML, whose comments stand behind values."""
    found = re.search(rf"^\s+{key}: *([^#\n]+)", text, re.MULTILINE)
    assert found, key
    value = found.group(1).strip().strip('"')
    return float(value) if re.fullmatch(r"[\d.]+", value) and value.count(".") < 2 else value


def run(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = dict(os.environ) | {"LD_LIBRARY_PATH": str(LIBRARY), "MOCK_NVML_CONFIG": str(config)}
    command = [sys.executable, "-m", "gputop", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)


def devices_of(config: Path) -> tuple[Snapshot, tuple[Device, ...]]:
    done = run(config, "--once", "--json")
    assert done.returncode == 0, done.stderr
    snapshot = Snapshot.from_json(done.stdout)
    return snapshot, snapshot.devices


@pytest.mark.parametrize("profile", PROFILES)
def test_a_machine_is_read_as_its_configuration_states(profile: str) -> None:
    text = text_of(profile)
    snapshot, devices = devices_of(CONFIGS / f"mock-nvml-config-{profile}.yaml")
    assert snapshot.host.driver_version == str(stated(text, "driver_version"))
    assert len({device.uuid for device in devices}) == text.count("\n  - index: ")
    for device in devices:
        assert (device.state, device.name) == ("ok", stated(text, "name"))
        assert device.memory_total_bytes == stated(text, "total_bytes")
        assert device.power_w == stated(text, "current_draw_mw") / 1000
        assert device.power_limit_w == stated(text, "enforced_limit_mw") / 1000
        assert device.temperature_c == stated(text, "temperature_gpu_c")
        assert device.temperature_slowdown_c == stated(text, "slowdown_threshold_c")
        assert device.sm_clock_mhz == stated(text, "sm_current")
        assert device.sm_clock_max_mhz == stated(text, "sm_max")
        assert device.memory_clock_mhz == stated(text, "memory_current")
        assert (device.pcie_generation_max, device.pcie_width_max) == (
            stated(text, "max_link_gen"),
            stated(text, "max_link_width"),
        )
        assert (device.utilization_percent, device.throttle_reasons) == (0.0, ("gpu_idle",))
        assert device.persistence_enabled is not None


@pytest.mark.parametrize("mode", ["lost", "fallen_off_bus"])
def test_a_lost_gpu_does_not_take_the_others_along(mode: str, tmp_path: Path) -> None:
    text = text_of("h100")
    head, devices, rest = text.partition("\ndevices:\n")
    assert devices
    config = tmp_path / "config.yaml"
    config.write_text(head + devices + rest.replace("- index: 1\n", f"- index: 1\n    failure:\n      mode: {mode}\n", 1))
    _, found = devices_of(config)
    assert [device.state for device in found] == ["ok", "lost", *["ok"] * 6]
    assert found[1].problem is not None
    done = run(config, "doctor", "--for", "5s", "--json")
    assert "GPU 1" in done.stdout, done.stdout
    assert json.loads(done.stdout)["findings"][0]["severity"] == "error"


def test_the_selftest_finds_nothing_to_complain_of(tmp_path: Path) -> None:
    path = tmp_path / "bundle.json"
    done = run(CONFIGS / "mock-nvml-config-h100.yaml", "selftest", "--no-training", "-o", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(gpu["finished"] and gpu["code"] == 0 for gpu in json.loads(path.read_text())["gpus"])
