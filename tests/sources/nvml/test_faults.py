"""The NVIDIA source under every fault: what it says, and that one device's or reading's fault hides no other."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from gputop.sources.base import Reading
from gputop.sources.nvml import library
from tests.nvml_sim import (
    Scenario,
    all_na,
    build,
    driver_mismatch,
    driver_not_loaded,
    environment,
    h100_box,
    lost_gpu,
    no_permission,
    one_hangs,
    slow_driver,
)
from tests.nvml_sim.watch import Watch
from tests.patience import DEADLINE_S

SOON = {"processes": 0.1, "state": 0.1, "slow": 0.2, "rare": 0.2}


def states(reading: Reading) -> list[str]:
    return [device.state for device in reading.devices]


# -- drivers that cannot be used ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "code", "words"),
    [
        (driver_mismatch(), "driver_mismatch", ("different versions", "reboot")),
        (driver_not_loaded(), "no_driver", ("not loaded", "modprobe")),
        (Scenario(init_error=4), "no_permission", ("refuses this user", "/dev/nvidia")),
        (Scenario(init_error=17), "no_permission", ("operating system", "cgroup")),
        (Scenario(init_error=999), "no_driver", ("error 999", "nvidia-smi")),
        (Scenario(), "no_gpu", ("sees no GPU", "lspci")),
    ],
    ids=["mismatch", "not-loaded", "no-permission", "cgroup", "unknown", "no-device"],
)
def test_a_driver_that_cannot_be_used_says_why_and_what_to_do(
    tmp_path: Path, scenario: Scenario, code: str, words: tuple[str, str]
) -> None:
    with Watch(scenario.write(tmp_path / "s")) as watch:
        told = watch.started
    assert told["code"] == code
    assert words[0] in told["message"]
    assert words[1] in told["hint"]


ELF_32 = b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x03\x00\x03\x00" + bytes(64)


@pytest.mark.parametrize(
    ("content", "reason", "hint"),
    [
        (b"", "file too short", "docker run --gpus all"),
        (
            b"a stand-in that an image left here; long enough for a header" * 4,
            "ELF",
            "--gpus all",
        ),
        (ELF_32, "wrong ELF class", "same architecture"),
    ],
    ids=["empty", "no-library", "32-bit"],
)
def test_a_library_that_is_there_and_cannot_be_loaded(tmp_path: Path, content: bytes, reason: str, hint: str) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(content)
    with Watch(tmp_path / "s", environ=dict(os.environ) | {"LD_LIBRARY_PATH": str(tmp_path)}) as watch:
        told = watch.started
    assert told["code"] == "library_unusable"
    assert "libnvidia-ml.so.1 cannot be loaded: " in told["message"]
    assert reason in told["message"]
    assert hint in told["hint"]


def test_a_library_that_lacks_what_it_needs(tmp_path: Path) -> None:
    source = tmp_path / "broken.c"
    source.write_text("extern int not_anywhere(void); int nvmlInit_v2(void) { return not_anywhere(); }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libnvidia-ml.so.1", source], check=True)
    environ = dict(os.environ) | {"LD_LIBRARY_PATH": str(tmp_path), "LD_BIND_NOW": "1"}
    with Watch(tmp_path / "s", environ=environ) as watch:
        assert watch.started["code"] == "library_unusable"
        assert "undefined symbol: not_anywhere" in watch.started["message"]
        assert "reinstall the driver" in watch.started["hint"]


def test_a_library_without_nvml_s_functions_is_not_nvidia_s(tmp_path: Path) -> None:
    source = tmp_path / "stand_in.c"
    source.write_text("int unrelated(void) { return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libnvidia-ml.so.1", source], check=True)
    with Watch(tmp_path / "s", environ=dict(os.environ) | {"LD_LIBRARY_PATH": str(tmp_path)}) as watch:
        assert watch.started["code"] == "library_unusable"
        assert "a stand-in, not NVIDIA's library" in watch.started["message"]
        assert "LD_LIBRARY_PATH" in watch.started["hint"]
        assert "reboot" not in watch.started["hint"]


def test_no_library(tmp_path: Path) -> None:
    problem = library.missing(tmp_path)
    assert problem.code == "library_not_found"
    assert "libnvidia-ml.so.1 is missing" in problem.message
    assert "Install the NVIDIA driver" in problem.hint


@pytest.mark.parametrize(
    ("file", "words", "hint"),
    [
        ("dev/dxg", "WSL", "on Windows"),
        ("proc/driver/nvidia/version", "driver is loaded", "NVIDIA_DRIVER_CAPABILITIES"),
    ],
)
def test_a_missing_library_on_a_machine_with_a_gpu(tmp_path: Path, file: str, words: str, hint: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).touch()
    problem = library.missing(tmp_path)
    assert problem.code == "library_not_found"
    assert words in problem.message
    assert hint in problem.hint


def test_a_library_outside_the_loaders_path_is_found(tmp_path: Path) -> None:
    place = tmp_path / "usr/lib/wsl/lib"
    place.mkdir(parents=True)
    (place / library.NAME).symlink_to(build() / library.NAME)
    assert library.open_library("libno-such-name.so.1", tmp_path) is not None


def test_a_driver_that_hangs_when_it_starts(tmp_path: Path) -> None:
    scenario = h100_box(1).hang("*", "nvmlInitWithFlags")
    with Watch(scenario.write(tmp_path / "s"), INIT_DEADLINE_S=0.3) as watch:
        assert watch.started["code"] == "hung"
        assert "does not answer" in watch.started["message"]
        assert "dmesg" in watch.started["hint"]


# -- lost GPUs ------------------------------------------------------------------------------------------------


def test_a_gpu_lost_while_running_keeps_its_place_and_comes_back(tmp_path: Path) -> None:
    path = h100_box(4, pids=(11, 12, 13)).write(tmp_path / "s")
    with Watch(path, **SOON, RETRY_GONE_S=0.1) as watch:
        before = watch.settled()
        assert states(before) == ["ok"] * 4
        lost_gpu(1).write(path)
        reading = watch.until(lambda found: found.devices[1].state == "lost")
        gone = reading.devices[1]
        assert (gone.index, gone.uuid, gone.name) == (1, before.devices[1].uuid, before.devices[1].name)
        assert (gone.utilization_percent, gone.memory_used_bytes, gone.power_w) == (None, None, None)
        assert gone.problem is not None
        assert (gone.problem.code, "GPU 1 is lost" in gone.problem.message, "dmesg" in gone.problem.hint) == (
            "gpu_lost",
            True,
            True,
        )
        assert gone.age_s is not None
        others = [device for device in reading.devices if device.index != 1]
        assert [(device.index, device.state, device.utilization_percent) for device in others] == [
            (index, "ok", 98.0) for index in (0, 2, 3)
        ]
        watch.until(lambda found: 12 not in found.uses, "the end of what ran on it")
        h100_box(4).write(path)
        back = watch.until(lambda found: found.devices[1].state == "ok" and found.devices[1].compute_mode is not None)
        assert back.devices[1].uuid == gone.uuid
        # Also what is read once only: the driver's handle is a new one.
        assert (back.devices[1].temperature_slowdown_c, back.devices[1].sm_clock_max_mhz) == (87.0, 1980.0)


def test_a_gpu_lost_at_the_start_does_not_renumber_the_others(tmp_path: Path) -> None:
    with Watch(lost_gpu(0, 3).write(tmp_path / "s")) as watch:
        reading = watch.settled()
    assert [(device.index, device.uuid, device.state) for device in reading.devices] == [
        (0, "GPU-index-0", "lost"),
        (1, Scenario.uuid(1), "ok"),
        (2, Scenario.uuid(2), "ok"),
    ]


def test_a_gpu_that_needs_a_reset(tmp_path: Path) -> None:
    with Watch(h100_box(2).set(1, reset_required=1).write(tmp_path / "s")) as watch:
        problem = watch.settled().devices[1].problem
    assert problem is not None
    assert problem.code == "reset_required"
    assert "--gpu-reset -i 1" in problem.hint


def test_a_gpu_that_this_user_may_not_open(tmp_path: Path) -> None:
    with Watch(h100_box(2).error(1, "nvmlDeviceGetHandleByIndex_v2", 4).write(tmp_path / "s")) as watch:
        reading = watch.until(lambda found: states(found) == ["ok", "error"])
    problem = reading.devices[1].problem
    assert problem is not None
    assert (problem.code, "/dev/nvidia" in problem.hint) == ("no_permission", True)


# -- hanging calls --------------------------------------------------------------------------------------------


def test_a_hanging_call_stales_only_its_gpu_and_ends(tmp_path: Path) -> None:
    path = h100_box(4).write(tmp_path / "s")
    with Watch(path, STALE_MIN_S=0.3) as watch:
        watch.settled()
        one_hangs(2, 4, "nvmlDeviceGetUtilizationRates").set(0, utilization=5).set(3, utilization=6).write(path)
        reading = watch.until(lambda found: found.devices[2].state == "stale" and found.devices[3].utilization_percent == 6.0)
        hung = reading.devices[2]
        assert hung.problem is not None
        assert hung.problem.code == "hung"
        assert hung.age_s is not None
        assert hung.age_s > 0.3
        assert (hung.utilization_percent, hung.memory_used_bytes) == (98.0, h100_memory())  # its last values
        assert states(reading) == ["ok", "ok", "stale", "ok"]
        assert reading.devices[0].utilization_percent == 5.0
        h100_box(4).set(2, utilization=44).write(path)
        watch.until(lambda found: found.devices[2].state == "ok" and found.devices[2].utilization_percent == 44.0)


def h100_memory() -> int:
    return int(71.2 * 2**30)


def test_a_gpu_that_hangs_from_the_start_leaves_the_others(tmp_path: Path) -> None:
    with Watch(one_hangs(0, 2).write(tmp_path / "s"), STALE_MIN_S=0.3) as watch:
        reading = watch.until(lambda found: found.devices[0].problem is not None and found.devices[1].power_w is not None)
        assert [(device.index, device.uuid, device.state) for device in reading.devices] == [
            (0, "GPU-index-0", "stale"),
            (1, Scenario.uuid(1), "ok"),
        ]
        problem = reading.devices[0].problem
        assert problem is not None
        assert problem.code == "hung"


def test_closing_does_not_wait_for_a_hanging_call(tmp_path: Path) -> None:
    with Watch(one_hangs(0, 2).write(tmp_path / "s"), STALE_MIN_S=0.3) as watch:
        watch.until(lambda found: found.devices[0].problem is not None)
        watch.ask("close")
        assert watch.process.wait(DEADLINE_S) == 0


# -- readings that fail ---------------------------------------------------------------------------------------


def test_gpus_that_support_nothing_show_nothing(tmp_path: Path) -> None:
    with Watch(all_na().write(tmp_path / "s"), **SOON) as watch:
        reading = watch.until(lambda found: bool(found.notes))
    for device in reading.devices:
        assert (device.state, device.problem, device.name) == ("ok", None, "NVIDIA H100 80GB HBM3")
        # Above all not the host's memory, which is what other tools show here.
        assert (device.memory_total_bytes, device.memory_used_bytes, device.unified_memory) == (None, None, None)
        assert (device.utilization_percent, device.power_w, device.temperature_c, device.compute_mode) == (None,) * 4
    assert "GPUs 0, 1" in reading.notes[0].message


def test_a_refused_process_list_is_not_an_empty_one(tmp_path: Path) -> None:
    with Watch(no_permission(2).write(tmp_path / "s")) as watch:
        reading = watch.settled()
    assert reading.uses == {}
    assert [note.code for note in reading.notes] == ["no_permission"]
    assert "GPUs 0, 1" in reading.notes[0].message
    assert reading.devices[0].denied == ("ecc_corrected", "ecc_uncorrected")
    assert (reading.devices[0].ecc_corrected, reading.devices[0].remapped_rows_correctable) == (None, 0)


def calls_of(log: Path) -> Counter[str]:
    return Counter(line.split()[0] for line in log.read_text().splitlines())


def test_what_is_not_supported_is_asked_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    scenario = h100_box(2).set(0, temperature=None, throttle_reasons=None).error(0, "nvmlDeviceGetUtilizationRates", 3)
    with Watch(path := scenario.write(tmp_path / "s"), environ=environment(path, log), **SOON) as watch:
        watch.settled()
        first = calls_of(log)
        watch.until(lambda found: calls_of(log)["nvmlDeviceGetPerformanceState"] > first["nvmlDeviceGetPerformanceState"] + 4)
        gpu, other = watch.read().devices
    lines = Counter(log.read_text().splitlines())
    assert lines["nvmlDeviceGetFanSpeed 0"] == 1
    assert lines["nvmlDeviceGetUtilizationRates 0"] == 1
    assert lines["nvmlDeviceGetTemperatureV 0"] == 1
    assert lines["nvmlDeviceGetCurrentClocksEventReasons 0"] == 1
    # The other GPU supports them, and is asked on.
    assert lines["nvmlDeviceGetUtilizationRates 1"] > 4
    assert (gpu.temperature_c, other.temperature_c) == (None, 65.0)


def test_a_passing_error_is_asked_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    path = h100_box(1).error(0, "nvmlDeviceGetUtilizationRates", 999).field_error(0, 185, 999).write(tmp_path / "s")
    with Watch(path, environ=environment(path, log)) as watch:
        gpu = watch.settled().devices[0]
        assert (gpu.utilization_percent, gpu.power_w, gpu.state) == (None, None, "ok")
        assert gpu.memory_used_bytes == h100_memory()
        watch.until(lambda found: calls_of(log)["nvmlDeviceGetUtilizationRates"] > 5)
        h100_box(1).write(path)
        watch.until(lambda found: found.devices[0].utilization_percent == 98.0 and found.devices[0].power_w == 612.0)


def test_a_gpu_whose_readings_all_fail_says_so_and_recovers(tmp_path: Path) -> None:
    path = h100_box(2).write(tmp_path / "s")
    with Watch(path) as watch:
        watch.settled()
        h100_box(2).error(1, "*", 999).write(path)
        reading = watch.until(lambda found: found.devices[1].state == "error")
        problem = reading.devices[1].problem
        assert problem is not None
        assert "999" in problem.message
        assert reading.devices[0].state == "ok"
        h100_box(2).write(path)
        watch.until(lambda found: states(found) == ["ok", "ok"])


def test_a_field_that_this_driver_does_not_know_spoils_no_other(tmp_path: Path) -> None:
    scenario = h100_box(1)
    for field in (269, 270, 271, 82):
        scenario.field_error(0, field, 2)
    with Watch(scenario.write(tmp_path / "s")) as watch:
        gpu = watch.settled().devices[0]
    assert (gpu.throttle_thermal_hw_ns, gpu.memory_temperature_c) == (None, None)
    assert gpu.power_w == 612.0
    assert gpu.throttle_power_ns is not None


def test_the_first_reading_does_not_wait_for_a_slow_driver(tmp_path: Path) -> None:
    # At 300 ms a call no first reading can be whole within the 0.3 s that it may take.
    with Watch(slow_driver(2, milliseconds=300).write(tmp_path / "s")) as watch:
        assert [device.index for device in watch.read().devices] == [0, 1]
        assert watch.read().devices[0].compute_mode is None
