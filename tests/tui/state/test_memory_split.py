"""Whose memory is in use on each GPU: the run's, other processes', the driver's, or nobody's that is listed."""

from __future__ import annotations

from dataclasses import replace

from gputop.snapshot import Device, DeviceUse, Process, Snapshot
from gputop.tui.drawing.gpus.pane import draw_gpus
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.processes.pane import draw_processes
from gputop.tui.drawing.processes.rows import Order, process_rows
from gputop.tui.state.memory_split import MemorySplit, memory_splits
from tests import samples
from tests.tui import dashboards

MIB = 2**20


def box(*used_mib: int, held_mib: int = 0) -> Snapshot:
    """GPUs with so much memory in use, of which rank 0, 1 … of a run holds ``held_mib`` each."""
    devices = tuple(samples.device(index, memory_used_bytes=used * MIB) for index, used in enumerate(used_mib))
    uses = [(DeviceUse(device.uuid, held_mib * MIB, 90.0, "C"),) for device in devices if held_mib]
    processes = tuple(samples.rank_process(rank, use) for rank, use in enumerate(uses))
    return samples.snapshot(devices=devices, processes=processes)


def splits(snapshot: Snapshot, run_id: str | None = "run-1") -> list[MemorySplit]:
    found = memory_splits(snapshot, run_id)
    return [found[device.uuid] for device in snapshot.devices]


def test_the_same_rest_on_every_gpu_is_the_drivers() -> None:
    snapshot = box(*[10_600] * 8, held_mib=10_000)
    assert splits(snapshot) == [MemorySplit(run=10_000 * MIB, other=0, driver=600 * MIB, unlisted=0)] * 8
    assert not [row for row in process_rows(snapshot, Order()) if row.kind == "rest"]


def test_more_memory_than_on_other_gpus_or_than_a_driver_needs_is_reported() -> None:
    (one,) = [split for split in splits(box(600, 620, 900, 600)) if split.unlisted]
    assert one.unlisted == 900 * MIB
    assert [split.unlisted for split in splits(box(5_000, 5_000))] == [5_000 * MIB] * 2
    (alone,) = splits(box(600))
    assert (alone.driver, alone.unlisted) == (600 * MIB, 0)
    rest = [row for row in process_rows(box(600, 620, 900, 600), Order()) if row.kind == "rest"]
    assert [(row.device.index, row.memory_bytes) for row in rest if row.device] == [(2, 900 * MIB)]


def test_memory_of_others_is_separate_from_the_runs() -> None:
    snapshot = box(10_600, 10_600, held_mib=10_000)
    mine, other = snapshot.processes
    snapshot = replace(snapshot, processes=(mine, replace(other, run_id="another")))
    assert [(split.run, split.other) for split in splits(snapshot)] == [(10_000 * MIB, 0), (0, 10_000 * MIB)]
    assert [(split.run, split.other) for split in splits(snapshot, None)] == [(0, 10_000 * MIB)] * 2


def test_a_hidden_share_makes_the_rest_unknown() -> None:
    snapshot = box(10_600, held_mib=10_000)
    stranger = Process(pid=77, devices=(DeviceUse(snapshot.devices[0].uuid, None, None, "C"),))
    (split,) = splits(replace(snapshot, processes=(*snapshot.processes, stranger)))
    assert split == MemorySplit(run=10_000 * MIB, other=None, driver=None, unlisted=None)


def test_the_drivers_part_of_the_bar_is_dim() -> None:
    def bar(snapshot: Snapshot) -> list[str]:
        (row, _) = draw_gpus(dashboards.view_of([snapshot] * 2, density="compact"), 140, 2).lines
        return [span.style for span in row if "━" in span.text]

    # Half of what is used is the run's, the rest neither a process's nor the driver's: it stands out.
    assert bar(box(*[41_000] * 2, held_mib=20_500)) == ["memory", "warn"]
    assert bar(box(*[41_000] * 2, held_mib=40_300)) == ["memory", "dim"]


def mig_box() -> Snapshot:
    """GPU 10 is divided into two instances, each with a process; the driver gives no utilization."""
    parent = samples.device(10, uuid="parent", utilization_percent=0.0, mig_enabled=True, power_w=380.0)
    instances = tuple(
        Device(
            10, f"MIG-{n}", kind="mig", parent_uuid="parent", mig_label=f"10:{n} 3g.40gb", memory_used_bytes=11 * samples.GIB
        )
        for n in range(2)
    )
    processes = tuple(
        replace(samples.rank_process(n, (DeviceUse(f"MIG-{n}", 11 * samples.GIB, None, "C"),)), run_id=None, rank=None)
        for n in range(2)
    )
    return samples.snapshot(devices=(parent, *instances), processes=processes, runs=(), points=())


def test_a_gpu_cut_into_instances_says_so_instead_of_idle() -> None:
    rows = [plain(row) for row in draw_gpus(dashboards.view_of([mig_box()], density="full"), 110, 20).lines]
    parent = next(row for row in rows if "380/700W" in row)
    assert "0%" not in parent
    assert "MIG 2 instances" in parent
    detail = rows[rows.index(parent) + 1]
    assert "ada (2 processes)" in detail
    assert "no process listed" not in detail


def test_the_gpu_column_holds_an_instance_and_its_mark() -> None:
    view = replace(dashboards.view_of([mig_box()]), findings=(replace(dashboards.ONE_GPU, pids=(4000,)),))
    rows = [plain(row) for row in draw_processes(view, process_rows(view.snapshot, Order()), Order(), 100).lines]
    assert rows[1].split()[:2] == ["▸10:0", "4000"]
    assert rows[2].split()[:2] == ["10:1", "4001"]
    assert rows[0].index("PID") == rows[1].index("4000") + 1
