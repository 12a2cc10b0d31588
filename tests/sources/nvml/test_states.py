"""Places where a driver tells only part of a GPU: virtual GPUs, a container with one MIG instance, WSL, Jetson, old drivers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gputop.cli.output.once import once_text
from gputop.snapshot import DeviceUse, Snapshot
from gputop.sources.nvml import library
from tests.nvml_sim import GIB, Scenario, environment, h100_box
from tests.nvml_sim.partial_machines import gb200_tray, jetson, mig_only_container, mig_uuid_container, vgpu_guest, wsl
from tests.nvml_sim.watch import Watch


def snapshot_of(scenario: Scenario, place: Path) -> Snapshot:
    driver = scenario.driver_version.removesuffix("-sim")
    with Watch(path := scenario.write(place / "s"), environ=environment(path, driver=driver)) as watch:
        return watch.snapshot()


def test_a_container_with_one_mig_instance_shows_it_whole_and_says_what_is_closed(tmp_path: Path) -> None:
    snapshot = snapshot_of(mig_only_container(), tmp_path)
    whole, instance = snapshot.devices
    assert (whole.memory_total_bytes, whole.memory_used_bytes, whole.utilization_percent) == (None, None, None)
    assert (whole.denied, whole.unified_memory) == (("memory_used_bytes",), None)
    assert (whole.temperature_c, whole.power_w) == (27, pytest.approx(67.03))
    assert (instance.memory_total_bytes, instance.mig_label) == (19968 * 2**20, "0:0 2g.20gb")
    assert [note.code for note in snapshot.notes if "GPU 0" in note.message] == ["mig_only"]
    assert "Only MIG instances of GPU 0" in once_text(snapshot)


def test_a_container_with_the_uuid_of_an_instance_shows_that_alone(tmp_path: Path) -> None:
    snapshot = snapshot_of(mig_uuid_container(), tmp_path)
    whole, instance = snapshot.devices
    assert whole.state == "ok"
    assert (whole.power_w, whole.temperature_c, whole.sm_clock_mhz, whole.utilization_percent) == (None,) * 4
    assert set(whole.denied) >= {"memory_used_bytes", "power_w", "temperature_c", "sm_clock_mhz"}
    assert (instance.memory_total_bytes, instance.memory_used_bytes) == (19968 * 2**20, 12 * 2**20)
    text = once_text(snapshot)
    assert "Only MIG instances of GPU 0" in text
    line = next(line for line in text.splitlines() if line.endswith("NVIDIA A100-SXM4-80GB"))
    assert "N/A" in line
    said = json.loads(snapshot.to_json())["devices"]
    assert [device["power_w"] for device in said] == [None, None], "an instance has no power of its own"


def test_a_gpu_whose_memory_is_a_node_of_the_machine_has_it_alone(tmp_path: Path) -> None:
    snapshot = snapshot_of(gb200_tray(), tmp_path)
    assert [gpu.unified_memory for gpu in snapshot.devices] == [False] * 4
    assert [gpu.memory_used_bytes for gpu in snapshot.devices] == [number * 10 * GIB for number in (1, 2, 3, 4)]
    assert {gpu.memory_total_bytes for gpu in snapshot.devices} == {189471 * 2**20}
    assert [gpu.numa_node for gpu in snapshot.devices] == [0, 0, 1, 1], (
        "the node of the near cores, not that of the GPU's memory"
    )
    assert [(gpu.cpu_affinity[0], gpu.cpu_affinity[-1]) for gpu in snapshot.devices] == [(0, 71)] * 2 + [(72, 143)] * 2
    assert [gpu.nvlinks_active for gpu in snapshot.devices] == [18] * 4
    assert not [note for note in snapshot.notes if note.code == "unified_memory"]
    assert len([line for line in once_text(snapshot).splitlines() if line.endswith("NVIDIA GB200")]) == 4


def test_a_virtual_gpu_says_what_its_host_keeps(tmp_path: Path) -> None:
    snapshot = snapshot_of(vgpu_guest(), tmp_path)
    (gpu,) = snapshot.devices
    assert (gpu.name, gpu.utilization_percent, gpu.memory_used_bytes) == ("GRID T4-16Q", 7, GIB)
    assert (gpu.power_w, gpu.power_limit_w, gpu.temperature_c, gpu.pcie_width) == (None,) * 4
    assert {note.code for note in snapshot.notes} >= {"vgpu", "other"}
    text = once_text(snapshot)
    assert "GPU 0 is a virtual GPU (NVIDIA vGPU)" in text
    assert "no process list for GPU 0" in text


def test_an_unlicensed_virtual_gpu_is_reported_before_it_slows_down(tmp_path: Path) -> None:
    snapshot = snapshot_of(vgpu_guest(licensed=0), tmp_path)
    (note,) = (note for note in snapshot.notes if note.code in ("vgpu", "unlicensed"))
    assert (note.code, "GPU 0 has no license" in note.message) == ("unlicensed", True)
    assert "GPU 0 has no license" in once_text(snapshot)
    assert [item["code"] for item in json.loads(snapshot.to_json())["notes"]].count("unlicensed") == 1
    assert "vgpu" in {note.code for note in snapshot_of(vgpu_guest(licensed=1), tmp_path).notes}


def test_under_wsl_processes_have_no_memory_and_the_gpu_no_utilization(tmp_path: Path) -> None:
    snapshot = snapshot_of(wsl(os.getpid()), tmp_path)
    (gpu,) = snapshot.devices
    assert (gpu.utilization_percent, gpu.memory_used_bytes, gpu.unified_memory) == (None, 6 * GIB, False)
    (process,) = (process for process in snapshot.processes if process.pid == os.getpid())
    assert process.devices == (DeviceUse(gpu.uuid, None, None, "C"),)


def test_a_jetson_that_reports_nothing_shows_nothing(tmp_path: Path) -> None:
    snapshot = snapshot_of(jetson(), tmp_path)
    (gpu,) = snapshot.devices
    known = (gpu.utilization_percent, gpu.memory_total_bytes, gpu.power_w, gpu.temperature_c, gpu.sm_clock_mhz)
    assert (gpu.state, known) == ("ok", (None,) * 5)


def test_a_jetson_without_the_library_gets_a_hint_on_what_reads_it(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").touch()
    problem = library.missing(tmp_path)
    assert (problem.code, "Jetson" in problem.message) == ("library_not_found", True)
    assert "JetPack" in problem.hint


@pytest.mark.parametrize("driver", ["418.43", "470.74", "515.105.01", "535.86.05", "550.54.14"])
def test_processes_are_read_with_every_driver(tmp_path: Path, driver: str) -> None:
    """Their lists have three versions, one of which meant something else in the first drivers of the 535 branch."""
    scenario = h100_box(1).on_driver(driver, 12000).set(0, compute_capability=8.0).process(0, os.getpid(), 9 * GIB, 55.0)
    snapshot = snapshot_of(scenario, tmp_path)
    (process,) = (process for process in snapshot.processes if process.pid == os.getpid())
    assert process.devices == (DeviceUse(Scenario.uuid(0), 9 * GIB, 55.0, "C"),)
    assert snapshot.devices[0].throttle_reasons == ("sw_power_cap",)
