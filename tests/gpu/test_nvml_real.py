"""The NVIDIA source on real hardware, held against nvidia-smi. Skipped, with the reason, where there is none."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from gputop.errors import NoGpuError
from gputop.sources.base import Reading
from gputop.sources.nvml.source import NvmlSource
from gputop.sources.nvml.worker import EVERY_S

pytestmark = pytest.mark.gpu

MIB = 2**20
READ_FOR_S = 12.0


class Watched:
    """A source that has been read once a second for a while."""

    def __init__(self, source: NvmlSource) -> None:
        self.source = source
        self.readings: list[Reading] = []
        end = time.monotonic() + READ_FOR_S
        while time.monotonic() < end:
            self.readings.append(source.read())
            time.sleep(1)


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    source = NvmlSource()
    try:
        source.start(1.0)
    except NoGpuError as error:
        pytest.skip(f"no real GPU: {error.message}")
    if source.read().simulated:
        source.close()
        pytest.skip("the driver here is a simulated one")
    yield Watched(source)
    source.close()


def smi(query: str) -> list[list[str]]:
    """One row per GPU of what nvidia-smi answers, without units."""
    if shutil.which("nvidia-smi") is None:
        pytest.skip("nvidia-smi is not installed here")
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    return [[value.strip() for value in line.split(",")] for line in result.stdout.strip().splitlines()]


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def test_every_gpu_answers(watched: Watched) -> None:
    for device in watched.source.read().devices:
        assert device.state == "ok", device.problem
        assert device.uuid.startswith(("GPU-", "MIG-"))
        assert not device.uuid.startswith("GPU-index-")


def test_identity_and_limits_agree_with_nvidia_smi(watched: Watched) -> None:
    reading = watched.source.read()
    query = "index,uuid,name,pci.bus_id,memory.total,memory.reserved,power.limit,clocks.max.sm,driver_version"
    gpus = [device for device in reading.devices if device.kind == "gpu"]
    for gpu, row in zip(gpus, smi(query), strict=True):
        assert [str(gpu.index), gpu.uuid, gpu.name, reading.driver_version] == [row[0], row[1], row[2], row[8]]
        assert (gpu.pci_bus_id or "").upper() == row[3].upper()
        if not gpu.unified_memory:
            assert gpu.memory_version == "v2"
            assert gpu.memory_total_bytes is not None
            assert round(gpu.memory_total_bytes / MIB) == number(row[4])
        if number(row[6]) is not None:
            assert gpu.power_limit_w == pytest.approx(number(row[6]), abs=0.5)
        if number(row[7]) is not None:
            assert gpu.sm_clock_max_mhz == number(row[7])


def test_moving_readings_are_near_those_of_nvidia_smi(watched: Watched) -> None:
    rows = smi("memory.used,temperature.gpu,power.draw")
    gpus = [device for device in watched.source.read().devices if device.kind == "gpu"]
    for gpu, row in zip(gpus, rows, strict=True):
        if not gpu.unified_memory and number(row[0]) is not None:
            assert gpu.memory_used_bytes == pytest.approx(number(row[0]) * MIB, rel=0.1, abs=600 * MIB)  # type: ignore[operator]
        if number(row[1]) is not None:
            assert gpu.temperature_c == pytest.approx(number(row[1]), abs=6)
        if number(row[2]) is not None:
            assert gpu.power_w == pytest.approx(number(row[2]), rel=0.5, abs=30)


def test_readings_are_sane(watched: Watched) -> None:
    for reading in watched.readings[2:]:
        for device in reading.devices:
            for name in ("utilization", "memory_activity", "sm_activity", "sm_occupancy", "tensor_activity", "dram_activity"):
                percent = getattr(device, f"{name}_percent")
                assert percent is None or 0 <= percent <= 100
            if device.memory_used_bytes is not None:
                assert 0 <= device.memory_used_bytes <= (device.memory_total_bytes or 0)
            for rate in (device.pcie_rx_bytes_per_s, device.nvlink_rx_bytes_per_s):
                assert rate is None or 0 <= rate < 2e12


def test_counters_never_go_back(watched: Watched) -> None:
    for earlier, later in zip(watched.readings, watched.readings[1:], strict=False):
        for before, after in zip(earlier.devices, later.devices, strict=True):
            for name in ("energy_j", "throttle_power_ns", "throttle_thermal_sw_ns", "throttle_thermal_hw_ns"):
                low, high = getattr(before, name), getattr(after, name)
                assert low is None or high is None or low <= high


def test_a_refresh_costs_at_most_eight_calls_a_gpu(watched: Watched) -> None:
    gpus = sum(device.kind == "gpu" for device in watched.source.read().devices)
    counted = [reading.nvml_calls or 0 for reading in watched.readings[3:]]
    assert EVERY_S["slow"] < READ_FOR_S
    assert sum(counted) / len(counted) / gpus <= 8.5  # a slow tier more or less may fall into so short a time


@pytest.mark.usefixtures("needs_cuda")
def test_a_cuda_process_is_seen_with_its_memory(watched: Watched) -> None:
    torch = pytest.importorskip("torch")
    held = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda:0")
    torch.cuda.synchronize()
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    deadline = time.monotonic() + 30
    seen: list[int] = []
    while time.monotonic() < deadline and not seen:
        # In a container the driver gives the host's PID, so the process is known by its memory.
        reading = watched.source.read()
        seen = [
            use.memory_used_bytes or 0
            for uses in reading.uses.values()
            for use in uses
            if use.device_uuid == uuid and "C" in use.contexts and (use.memory_used_bytes or 0) >= held.nbytes
        ]
        if reading.notes:
            pytest.skip(reading.notes[0].message)
        time.sleep(0.2)
    assert seen
