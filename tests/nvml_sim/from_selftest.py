"""Plays a report that ``gputop selftest`` wrote on somebody's machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.nvml_sim.scenario import Scenario

SLOW_US = 50
"""Calls that took longer than this are slow here too; most calls of a real driver take 2 to 20 µs."""
WAVES = {
    "utilization": "utilization_percent",
    "memory_utilization": "memory_activity_percent",
    "memory_total": "memory_total_bytes",
    "memory_used": "memory_used_bytes",
    "memory_reserved": "memory_reserved_bytes",
    "power": "power_w",
    "power_limit": "power_limit_w",
    "power_default_limit": "power_default_limit_w",
    "temperature": "temperature_c",
    "temperature_slowdown": "temperature_slowdown_c",
    "temperature_shutdown": "temperature_shutdown_c",
    "memory_temperature": "memory_temperature_c",
    "sm_clock": "sm_clock_mhz",
    "sm_clock_max": "sm_clock_max_mhz",
    "memory_clock": "memory_clock_mhz",
    "memory_clock_max": "memory_clock_max_mhz",
    "performance_state": "performance_state",
    "pcie_generation": "pcie_generation",
    "pcie_generation_max": "pcie_generation_max",
    "pcie_width": "pcie_width",
    "pcie_width_max": "pcie_width_max",
    "pcie_rx": "pcie_rx_bytes_per_s",
    "pcie_tx": "pcie_tx_bytes_per_s",
    "ecc_corrected": "ecc_corrected",
    "ecc_uncorrected": "ecc_uncorrected",
    "remapped_correctable": "remapped_rows_correctable",
    "remapped_uncorrectable": "remapped_rows_uncorrectable",
    "sm_activity": "sm_activity_percent",
    "sm_occupancy": "sm_occupancy_percent",
    "tensor_activity": "tensor_activity_percent",
    "dram_activity": "dram_activity_percent",
    "nvlink_links": "nvlinks_active",
    "nvlink_rx": "nvlink_rx_bytes_per_s",
    "nvlink_tx": "nvlink_tx_bytes_per_s",
    "fan": "fan_percent",
}
"""Reading of the simulation -> the field of ``Device`` that it provides."""


def scenario_of(bundle: Mapping[str, Any]) -> Scenario:
    """Return the machine of a self-test's report, as idle or busy as it was then."""
    scenario = Scenario()
    for gpu in bundle["gpus"]:
        index, readings = gpu["index"], gpu["readings"]
        if readings is None:
            continue
        scenario.gpu(index, readings["name"] or "NVIDIA GPU")
        scenario.set(index, **{wave: readings[name] for wave, name in WAVES.items() if wave in scenario.gpus[index]})
        if readings["cpu_affinity"]:
            scenario.near(index, ",".join(map(str, readings["cpu_affinity"])), readings["numa_node"])
        for function, call in gpu["calls"].items():
            if call["code"]:
                scenario.error(index, function, call["code"])
            elif call["median_us"] and call["median_us"] > SLOW_US and function != "nvmlDeviceGetPcieThroughput":
                scenario.slow(index, function, round(call["median_us"]))
        for number, call in gpu["fields"].items():
            if call["code"]:
                scenario.field_error(index, int(number), call["code"])
            elif call["median_us"] > SLOW_US:
                scenario.slow(index, f"field:{number}", round(call["median_us"]))
    return scenario
