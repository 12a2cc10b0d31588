"""What the NVIDIA source reads of healthy machines, through the real pynvml and the simulated driver."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gputop.snapshot import DeviceUse
from gputop.sources.nvml import events
from tests.house.how_to import step
from tests.nvml_sim import (
    GIB,
    Scenario,
    a100_box,
    environment,
    h100_box,
    living_box,
    mig_box,
    slow_driver,
    unified_memory,
)
from tests.nvml_sim.watch import ROOT, Watch
from tests.patience import DEADLINE_S

SOON = {"processes": 0.1, "state": 0.1, "slow": 0.2, "rare": 0.2}
"""Tiers for tests that wait for a change."""
OLD = "450.80.02"
"""A driver without the second versions of memory and process lists."""


def test_reads_everything_of_a_training_h100(tmp_path: Path) -> None:
    scenario = h100_box(1).set(0, throttle_thermal_hw=0.5, ecc_corrected=3, remapped_correctable=1, remapped_pending=1)
    scenario.epoch -= 100
    with Watch(scenario.write(tmp_path / "s")) as watch:
        reading = watch.until(
            lambda found: (
                found.devices[0].compute_mode is not None
                and found.devices[0].nvlink_rx_bytes_per_s is not None
                and found.devices[0].sm_activity_percent is not None
            )
        )
    assert (reading.driver_version, reading.cuda_version, reading.simulated) == ("580.95.05-sim", "13.0", True)
    gpu = reading.devices[0]
    read = {
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": Scenario.uuid(0),
        "kind": "gpu",
        "state": "ok",
        "age_s": None,
        "problem": None,
        "pci_bus_id": "00000000:01:00.0",
        "memory_total_bytes": 80 * GIB,
        "memory_used_bytes": int(71.2 * GIB),
        "memory_reserved_bytes": GIB // 2,
        "memory_version": "v2",
        "utilization_percent": 98.0,
        "memory_activity_percent": 55.0,
        "sm_activity_percent": 88.0,
        "sm_occupancy_percent": 47.0,
        "tensor_activity_percent": 41.0,
        "dram_activity_percent": 38.0,
        "power_w": 612.0,
        "power_limit_w": 700.0,
        "power_default_limit_w": 700.0,
        "temperature_c": 65.0,
        "temperature_slowdown_c": 87.0,
        "temperature_shutdown_c": 92.0,
        "memory_temperature_c": 78.0,
        "sm_clock_mhz": 1980.0,
        "sm_clock_max_mhz": 1980.0,
        "memory_clock_mhz": 2619.0,
        "memory_clock_max_mhz": 2619.0,
        "performance_state": 0,
        "fan_percent": None,
        "throttle_reasons": ("sw_power_cap",),
        "throttle_sync_boost_ns": 0,
        "throttle_thermal_sw_ns": 0,
        "throttle_power_brake_ns": 0,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_rx_bytes_per_s": 3.0e9,
        "pcie_tx_bytes_per_s": 1.0e9,
        "pcie_throughput_source": "gpm",
        "ecc_corrected": 3,
        "ecc_uncorrected": 0,
        "remapped_rows_correctable": 1,
        "remapped_rows_uncorrectable": 0,
        "remapped_rows_pending": True,
        "remapped_rows_failed": False,
        "nvlinks_active": 18,
        "numa_node": None,
        "cpu_affinity": (),
        "xid_errors": (),
        "compute_mode": "default",
        "mig_enabled": False,
        "persistence_enabled": True,
        "unified_memory": False,
        "denied": (),
    }
    assert {name: getattr(gpu, name) for name in read} == read
    assert gpu.nvlink_rx_bytes_per_s == pytest.approx(40e9, rel=0.05)
    assert gpu.nvlink_tx_bytes_per_s == pytest.approx(41e9, rel=0.05)
    # 100 seconds before the watcher came: a fifth of them capped by power, half by heat, 612 W all the time.
    assert gpu.throttle_power_ns is not None
    assert 20e9 <= gpu.throttle_power_ns < 60e9
    assert gpu.throttle_thermal_hw_ns == pytest.approx(2.5 * gpu.throttle_power_ns, rel=0.01)
    assert gpu.energy_j is not None
    assert gpu.energy_j >= 1000 + 100 * 612


def test_counters_grow(tmp_path: Path) -> None:
    with Watch(h100_box(1).write(tmp_path / "s")) as watch:
        first = watch.settled().devices[0]
        assert first.energy_j is not None
        assert first.throttle_power_ns is not None
        capped = first.throttle_power_ns
        watch.until(lambda found: (found.devices[0].throttle_power_ns or 0) > capped, "growth of a throttle counter")


def test_sixteen_gpus_keep_their_order_and_processes_their_gpus(tmp_path: Path) -> None:
    pids = tuple(range(1001, 1017))
    with Watch(h100_box(16, pids=pids).write(tmp_path / "s")) as watch:
        reading = watch.settled()
    assert [device.index for device in reading.devices] == list(range(16))
    assert [device.uuid for device in reading.devices] == [Scenario.uuid(index) for index in range(16)]
    assert reading.uses == {
        pid: (DeviceUse(Scenario.uuid(index), int(70.5 * GIB), 97.0, "C"),) for index, pid in enumerate(pids)
    }


def test_processes_are_merged_by_pid(tmp_path: Path) -> None:
    scenario = h100_box(2)
    scenario.process(0, 500, 2 * GIB, 40.0, "CM").process(1, 500, 3 * GIB, 50.0, "C")
    scenario.process(0, 501, GIB, None, "G").process(0, 502, None, 10.0, "C").process(0, 503, 0.25 * GIB, 0.0, "CG")
    with Watch(scenario.write(tmp_path / "s")) as watch:
        uses = watch.settled().uses
    first, second = Scenario.uuid(0), Scenario.uuid(1)
    assert uses == {
        500: (DeviceUse(first, 2 * GIB, 40.0, "CM"), DeviceUse(second, 3 * GIB, 50.0, "C")),
        501: (DeviceUse(first, GIB, 0.0, "G"),),
        502: (DeviceUse(first, None, 10.0, "C"),),
        503: (DeviceUse(first, GIB // 4, 0.0, "CG"),),
    }


def test_processes_come_and_go(tmp_path: Path) -> None:
    path = h100_box(1).write(tmp_path / "s")
    with Watch(path, **SOON) as watch:
        assert watch.settled().uses == {}
        h100_box(1).process(0, 700, types="G").write(path)
        watch.until(lambda found: set(found.uses) == {700}, "the process")
        h100_box(1).write(path)
        watch.until(lambda found: not found.uses, "its end")


def test_more_processes_than_the_buffers_hold(tmp_path: Path) -> None:
    scenario = h100_box(1)
    for pid in range(2000, 2150):
        scenario.process(0, pid, GIB / 8, 1.0)
    with Watch(scenario.write(tmp_path / "s")) as watch:
        uses = watch.settled().uses
    assert set(uses) == set(range(2000, 2150))
    assert {use[0].sm_utilization_percent for use in uses.values()} == {1.0}


def test_values_that_cannot_be_are_unknown(tmp_path: Path) -> None:
    scenario = h100_box(1).set(0, utilization=3000, sm_activity=5e6, memory_temperature=0)
    scenario.process(0, 0).process(0, 600, 5000 * GIB, 4_000_000_000.0)
    with Watch(scenario.write(tmp_path / "s")) as watch:
        reading = watch.until(lambda found: found.devices[0].tensor_activity_percent is not None)
    gpu = reading.devices[0]
    assert (gpu.utilization_percent, gpu.sm_activity_percent, gpu.memory_temperature_c) == (None, None, None)
    assert reading.uses == {600: (DeviceUse(gpu.uuid, None, 0.0, "C"),)}


def test_blackwell_has_its_process_utilization_from_the_newer_call(tmp_path: Path) -> None:
    scenario = h100_box(1).set(0, compute_capability=10.0).process(0, 900, GIB, 66.0)
    scenario.error(0, "nvmlDeviceGetProcessUtilization", 6)
    with Watch(scenario.write(tmp_path / "s")) as watch:
        assert watch.settled().uses[900][0].sm_utilization_percent == 66.0


def test_mig_instances_are_devices(tmp_path: Path) -> None:
    scenario = mig_box().process(0, 800, 19 * GIB, types="C", mig=0).process(0, 801, 3 * GIB, types="C", mig=1)
    with Watch(scenario.write(tmp_path / "s")) as watch:
        reading = watch.until(lambda found: len(found.devices) == 4 and found.devices[1].utilization_percent is not None)
    parent, large, small, whole = reading.devices
    assert (parent.kind, parent.mig_enabled, whole.kind, whole.mig_enabled) == ("gpu", True, "gpu", False)
    assert [(mig.kind, mig.index, mig.parent_uuid, mig.mig_label, mig.name) for mig in (large, small)] == [
        ("mig", 0, parent.uuid, "0:0 3g.40gb", "NVIDIA H100 80GB HBM3 MIG 3g.40gb"),
        ("mig", 0, parent.uuid, "0:1 1g.10gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"),
    ]
    assert (large.memory_total_bytes, large.memory_used_bytes, large.memory_version) == (39.5 * GIB, 20 * GIB, "v2")
    assert (large.utilization_percent, large.sm_activity_percent) == (77.0, 77.0)
    assert (small.utilization_percent, small.sm_activity_percent) == (None, None)
    assert reading.uses == {
        800: (DeviceUse(Scenario.mig_uuid(0, 0), 19 * GIB, None, "C"),),
        801: (DeviceUse(Scenario.mig_uuid(0, 1), 3 * GIB, None, "C"),),
    }


def test_a_new_mig_layout_is_found(tmp_path: Path) -> None:
    path = h100_box(1).write(tmp_path / "s")
    with Watch(path, **SOON) as watch:
        assert len(watch.settled().devices) == 1
        h100_box(1).mig(0, (1, 0), "7g.80gb", 79, 10, 50.0).write(path)
        found = watch.until(lambda found: len(found.devices) == 2 and found.devices[1].sm_activity_percent == 50.0)
        assert found.devices[0].mig_enabled
        h100_box(1).write(path)
        watch.until(lambda found: len(found.devices) == 1 and found.devices[0].mig_enabled is False)


HOST_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("total", [None, 0.0, float(HOST_BYTES)])
def test_unified_memory_is_the_hosts_and_says_so(tmp_path: Path, total: float | None) -> None:
    """Refused, none, or the machine's own: a driver may say so in three ways."""
    machine = unified_memory().set(0, memory_total=total, memory_used=GIB, memory_reserved=0)
    with Watch(machine.write(tmp_path / "s")) as watch:
        gpu = watch.settled().devices[0]
    assert (gpu.memory_version, gpu.unified_memory, gpu.memory_total_bytes) == ("host", True, HOST_BYTES)
    assert gpu.memory_used_bytes is not None
    assert 0 < gpu.memory_used_bytes < HOST_BYTES
    assert gpu.problem is not None
    assert (gpu.problem.code, gpu.state) == ("unified_memory", "ok")


def test_an_old_driver_is_read_through_its_old_calls(tmp_path: Path) -> None:
    scenario = a100_box(1).on_driver(OLD, 11000).process(0, 321, 9 * GIB, 55.0)
    for field in (83, 3, 4):
        scenario.field_error(0, field, 2)
    with Watch(path := scenario.write(tmp_path / "s"), environ=environment(path, driver=OLD)) as watch:
        reading = watch.settled()
    gpu = reading.devices[0]
    # Version 1 counts the driver's reserve as used.
    assert (gpu.memory_version, gpu.memory_used_bytes, gpu.memory_reserved_bytes) == ("v1", int(71.2 * GIB) + GIB // 2, None)
    assert (gpu.power_w, gpu.power_limit_w, gpu.temperature_c, gpu.ecc_corrected) == (612.0, 700.0, 65.0, 0)
    assert gpu.energy_j is not None
    assert gpu.throttle_reasons == ("sw_power_cap",)
    assert reading.uses == {321: (DeviceUse(gpu.uuid, 9 * GIB, 55.0, "C"),)}


@pytest.mark.parametrize(
    ("driver", "known"), [("570.124.04", False), ("575.57.08", True), ("580.65.06", True), ("580.76.05", False)]
)
def test_the_slowdown_counters_are_where_the_driver_has_them(tmp_path: Path, driver: str, known: bool) -> None:
    """NVIDIA's bindings gave their ids to other fields and back; between two of its releases, nobody knows."""
    scenario = h100_box(1).on_driver(driver, 12080).set(0, throttle_thermal_sw=0.5)
    scenario.epoch -= 100
    with Watch(path := scenario.write(tmp_path / "s"), environ=environment(path, driver=driver)) as watch:
        gpu = watch.settled().devices[0]
    assert ((gpu.throttle_thermal_sw_ns or 0) >= 50e9) is known
    assert (gpu.throttle_thermal_hw_ns, gpu.throttle_power_brake_ns) == ((0, 0) if known else (None, None))


def test_pcie_counters_of_64_bits_give_the_throughput_without_gpm(tmp_path: Path) -> None:
    scenario = a100_box(1).set(0, pcie_counter_bits=64)
    scenario.epoch -= 1000
    log = tmp_path / "log"
    with Watch(path := scenario.write(tmp_path / "s"), environ=environment(path, log)) as watch:
        watch.ask("pcie 1")
        gpu = watch.until(lambda found: found.devices[0].pcie_rx_bytes_per_s is not None).devices[0]
    assert gpu.pcie_throughput_source == "counters"
    assert gpu.pcie_rx_bytes_per_s == pytest.approx(3e9, rel=0.05)
    assert gpu.pcie_tx_bytes_per_s == pytest.approx(1e9, rel=0.05)
    assert "nvmlDeviceGetPcieThroughput" not in log.read_text()


def test_the_blocking_pcie_call_is_made_only_while_wanted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    # At an interval of 0.2 s, a link of 31 GB/s can move more than a 32-bit counter tells.
    with Watch(path := a100_box(1).write(tmp_path / "s"), 0.2, environ=environment(path, log)) as watch:
        watch.settled()
        gpu = watch.until(lambda found: log.read_text().count("FieldValues") > 5).devices[0]
        assert (gpu.pcie_rx_bytes_per_s, gpu.pcie_throughput_source) == (None, None)
        assert "nvmlDeviceGetPcieThroughput" not in log.read_text()
        watch.ask("pcie 1")
        gpu = watch.until(lambda found: found.devices[0].pcie_throughput_source == "blocking").devices[0]
        assert (gpu.pcie_rx_bytes_per_s, gpu.pcie_tx_bytes_per_s) == (3e9, 1e9)
        watch.ask("pcie 0")
        watch.until(lambda found: found.devices[0].pcie_rx_bytes_per_s is None)


def test_a_blocking_pcie_call_that_hangs_delays_nothing_else(tmp_path: Path) -> None:
    path = a100_box(1).hang(0, "nvmlDeviceGetPcieThroughput").write(tmp_path / "s")
    with Watch(path, 0.2, STALE_MIN_S=1e9, STALE_INTERVALS=1e9) as watch:
        watch.ask("pcie 1")
        watch.settled()
        a100_box(1).hang(0, "nvmlDeviceGetPcieThroughput").set(0, utilization=12).write(path)
        watch.until(lambda found: found.devices[0].utilization_percent == 12.0)


def test_a_slow_driver_delivers(tmp_path: Path) -> None:
    with Watch(slow_driver(4).write(tmp_path / "s")) as watch:
        reading = watch.settled()
    assert {device.state for device in reading.devices} == {"ok"}


def test_the_interval_can_be_changed(tmp_path: Path) -> None:
    path = h100_box(1).write(tmp_path / "s")
    with Watch(path, 3600.0) as watch:
        watch.settled()
        watch.ask("interval 0.05")
        h100_box(1).set(0, utilization=7).write(path)
        watch.until(lambda found: found.devices[0].utilization_percent == 7.0)


def test_close_ends_the_reading(tmp_path: Path) -> None:
    with Watch(path := h100_box(2).write(tmp_path / "s"), environ=environment(path)) as watch:
        watch.settled()
        watch.ask("close")
        assert watch.process.wait(DEADLINE_S) == 0


ONE_MINUTE = """
import sys
from collections import Counter
from gputop.sources.nvml.source import _start_driver
from gputop.sources.nvml.worker import Worker

machine = _start_driver()
workers = [Worker(index, 1.0) for index in range(machine.gpu_count)]
for worker in workers:
    worker.tick(0.0)
open(sys.argv[1], "w").close()
before = sum(worker.calls for worker in workers)
for second in range(1, 61):
    for worker in workers:
        worker.tick(float(second))
print((sum(worker.calls for worker in workers) - before))
"""


@pytest.mark.parametrize("gpus", [1, 8])
def test_a_minute_costs_at_most_eight_calls_per_gpu_and_refresh(tmp_path: Path, gpus: int) -> None:
    log = tmp_path / "log"
    path = living_box(gpus, pids=tuple(range(5000, 5000 + gpus))).write(tmp_path / "s")
    result = subprocess.run(
        [sys.executable, "-c", ONE_MINUTE, str(log)], cwd=ROOT, env=environment(path, log), capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    calls = Counter(line.split()[0] for line in log.read_text().splitlines())
    print(f"{sum(calls.values()) / 60 / gpus:.2f} NVML calls per GPU and refresh: {dict(calls.most_common())}")
    assert int(result.stdout) == sum(calls.values())  # what is told of the cost is what the driver saw
    assert calls["nvmlDeviceGetUtilizationRates"] == 60 * gpus
    waits_for_events = 60 * 1000 / events.WAIT_MS  # in a thread of its own, once for all GPUs
    assert sum(calls.values()) + waits_for_events <= 8 * 60 * gpus, step("A driver reading", "Call")
    assert "nvmlDeviceGetPcieThroughput" not in calls


def test_what_takes_milliseconds_is_asked_every_ten_seconds(tmp_path: Path) -> None:
    """The energy counter takes 3 ms on an H100. Here it has no field, so that its own call shows how often it is asked."""
    log = tmp_path / "log"
    path = living_box(1, pids=(5000,)).field_error(0, 83, 3).write(tmp_path / "s")
    subprocess.run([sys.executable, "-c", ONE_MINUTE, str(log)], cwd=ROOT, env=environment(path, log), check=True, timeout=180)
    calls = Counter(line.split()[0] for line in log.read_text().splitlines())
    assert calls["nvmlDeviceGetTotalEnergyConsumption"] == 6
