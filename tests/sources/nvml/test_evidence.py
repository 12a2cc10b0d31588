"""Where a GPU sits, its NVLinks and its Xid errors: through the real pynvml and the simulated driver, and from PCI's files."""

from __future__ import annotations

import time
from pathlib import Path

from gputop.sources.nvml.place import pci_place
from tests.nvml_sim import environment, h100_box, mig_box, one_hangs
from tests.nvml_sim.scenario import ANY, NOT_SUPPORTED
from tests.nvml_sim.watch import Watch
from tests.patience import DEADLINE_S


def test_a_gpu_knows_the_cores_and_the_node_that_are_near(tmp_path: Path) -> None:
    scenario = h100_box(2).near(0, "0-3,64-67,130", 0).near(1, "4-7", 1)
    with Watch(scenario.write(tmp_path / "s")) as watch:
        first, second = watch.settled().devices
    assert (first.cpu_affinity, first.numa_node) == ((0, 1, 2, 3, 64, 65, 66, 67, 130), 0)
    assert (second.cpu_affinity, second.numa_node) == ((4, 5, 6, 7), 1)


def test_a_mig_instance_sits_where_its_gpu_sits(tmp_path: Path) -> None:
    with Watch(mig_box().near(0, "8-15", 1).write(tmp_path / "s")) as watch:
        devices = watch.until(lambda found: found.devices[0].numa_node == 1 and len(found.devices) > 2).devices
    assert [(device.cpu_affinity, device.numa_node) for device in devices if device.kind == "mig"] == [
        (tuple(range(8, 16)), 1)
    ] * 2


def test_pci_says_where_the_driver_does_not(tmp_path: Path) -> None:
    folder = tmp_path / "0000:c1:00.0"
    folder.mkdir()
    for name, text in (("vendor", "0x10de"), ("numa_node", "1"), ("local_cpulist", "32-33,96")):
        (folder / name).write_text(f"{text}\n")
    assert pci_place("00000000:C1:00.0", str(tmp_path)) == ((32, 33, 96), 1)
    (folder / "numa_node").write_text("-1\n")
    assert pci_place("00000000:C1:00.0", str(tmp_path)) == ((32, 33, 96), None)
    (folder / "vendor").write_text("0x8086\n")  # another device has that address here: this GPU is in another machine's view
    assert pci_place("00000000:C1:00.0", str(tmp_path)) == ((), None)
    assert pci_place("00000000:C2:00.0", str(tmp_path)) == ((), None)
    assert pci_place(None, str(tmp_path)) == ((), None)


def test_an_nvlink_that_goes_down_is_seen(tmp_path: Path) -> None:
    scenario = h100_box(1)
    with Watch(scenario.write(tmp_path / "s"), slow=0.1, WAIT_MS=50) as watch:
        assert watch.settled().devices[0].nvlinks_active == 18
        scenario.set(0, nvlinks_active=16).write(tmp_path / "s")
        watch.until(lambda found: found.devices[0].nvlinks_active == 16, "fewer links")


def test_links_are_counted_one_by_one_where_the_field_is_unknown(tmp_path: Path) -> None:
    path = h100_box(1).on_driver("470.74", 11040).set(0, nvlink_links=12, nvlinks_active=11).write(tmp_path / "s")
    with Watch(path, environ=environment(path, driver="470.74")) as watch:
        assert watch.settled().devices[0].nvlinks_active == 11


def test_a_gpu_without_nvlink_has_no_number_of_them(tmp_path: Path) -> None:
    with Watch(h100_box(1).set(0, nvlink_links=0).write(tmp_path / "s")) as watch:
        assert watch.settled().devices[0].nvlinks_active is None


def test_xid_errors_are_kept_with_their_time(tmp_path: Path) -> None:
    scenario = h100_box(2)
    before = time.time()
    scenario.xid(1, 13, after_s=-60)  # nobody watched
    with Watch(scenario.write(tmp_path / "s"), slow=0.1, WAIT_MS=50) as watch:
        watch.until(lambda found: found.devices[0].state == "ok")
        scenario.xid(1, 79, after_s=0.3).xid(1, 48, after_s=0.3).write(tmp_path / "s")
        gpus = watch.until(lambda found: len(found.devices[1].xid_errors) == 2, "two errors").devices
    assert [xid for _, xid in gpus[1].xid_errors] == [79, 48]
    assert all(before < at < time.time() + 1 for at, _ in gpus[1].xid_errors)
    assert gpus[0].xid_errors == ()


def test_a_hanging_wait_for_events_holds_nothing_up(tmp_path: Path) -> None:
    scenario = h100_box(1).hang(ANY, "nvmlEventSetWait_v2")
    with Watch(scenario.write(tmp_path / "s")) as watch:
        assert watch.settled().devices[0].state == "ok"
        assert watch.ask("close") == "close"
        assert watch.process.wait(DEADLINE_S) == 0


def test_a_driver_without_events_is_not_an_error(tmp_path: Path) -> None:
    scenario = h100_box(1).error(ANY, "nvmlDeviceRegisterEvents", NOT_SUPPORTED)
    with Watch(scenario.write(tmp_path / "s"), slow=0.1, WAIT_MS=50) as watch:
        assert watch.settled().devices[0].xid_errors == ()


def test_errors_of_other_gpus_are_reported_while_one_hangs(tmp_path: Path) -> None:
    scenario = one_hangs(1, 3, "nvmlDeviceGetUtilizationRates")
    with Watch(scenario.write(tmp_path / "s"), slow=0.1, WAIT_MS=50) as watch:
        watch.until(lambda found: found.devices[0].state == "ok")
        scenario.xid(0, 31, after_s=0.3).write(tmp_path / "s")
        watch.until(lambda found: [xid for _, xid in found.devices[0].xid_errors] == [31], "the error")
