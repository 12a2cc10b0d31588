"""Snapshots for tests of code that draws or judges: built by hand, never by running code of the product."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

from gputop.snapshot import (
    Ancestor,
    Device,
    DeviceUse,
    Host,
    LaunchEnvironment,
    Points,
    Process,
    Rank,
    Run,
    Snapshot,
)

GIB = 2**30
EPOCH = 1_790_000_000.0


def device(index: int, **changes: object) -> Device:
    """An H100 at full load."""
    base = _busy_device(index)
    return replace(base, **changes) if changes else base  # type: ignore[arg-type]


@cache
def _busy_device(index: int) -> Device:
    return Device(
        index=index,
        uuid=f"GPU-5f{index:06d}-0000-0000-0000-000000000000",
        name="NVIDIA H100 80GB HBM3",
        pci_bus_id=f"00000000:{index + 1:02X}:00.0",
        memory_total_bytes=80 * GIB,
        memory_used_bytes=int(71.2 * GIB),
        memory_reserved_bytes=GIB // 2,
        memory_version="v2",
        utilization_percent=98.0,
        memory_activity_percent=55.0,
        sm_activity_percent=88.0,
        tensor_activity_percent=41.0,
        power_w=612.0,
        power_limit_w=700.0,
        power_default_limit_w=700.0,
        temperature_c=65.0,
        temperature_slowdown_c=87.0,
        sm_clock_mhz=1980.0,
        sm_clock_max_mhz=1980.0,
        pcie_generation=5,
        pcie_generation_max=5,
        pcie_width=16,
        pcie_width_max=16,
        compute_mode="default",
        mig_enabled=False,
    )


def idle_device(index: int, **changes: object) -> Device:
    """An H100 that nobody uses."""
    base = _idle_device(index)
    return replace(base, **changes) if changes else base  # type: ignore[arg-type]


@cache
def _idle_device(index: int) -> Device:
    return device(
        index,
        memory_used_bytes=GIB // 2,
        utilization_percent=0.0,
        memory_activity_percent=0.0,
        sm_activity_percent=0.0,
        tensor_activity_percent=0.0,
        power_w=70.0,
        temperature_c=31.0,
        sm_clock_mhz=345.0,
    )


def rank_process(rank: int, uses: tuple[DeviceUse, ...], world_size: int = 4, **changes: object) -> Process:
    """A rank that torchrun started."""
    base = _rank_process(rank, uses, world_size)
    return replace(base, **changes) if changes else base  # type: ignore[arg-type]


@cache
def _rank_process(rank: int, uses: tuple[DeviceUse, ...], world_size: int) -> Process:
    return Process(
        pid=4000 + rank,
        devices=uses,
        ppid=3999,
        uid=1000,
        user="ada",
        name="python",
        command=("/opt/venv/bin/python", "-u", "train.py", "--epochs", "90"),
        state="R",
        cpu_percent=104.0,
        memory_rss_bytes=3 * GIB,
        started_at=EPOCH - 600,
        environment=LaunchEnvironment(
            rank=rank, local_rank=rank, world_size=world_size, local_world_size=world_size, torchelastic_run_id="none"
        ),
        ancestors=(Ancestor(3999, "torchrun"), Ancestor(3000, "bash")),
        launcher=Ancestor(3999, "torchrun"),
        torch_mapped=True,
        torch_cuda_mapped=True,
        nvidia_open=True,
        run_id="run-1",
        rank=rank,
    )


def run(world_size: int = 4, step: int = 1240, state: str = "running", run_id: str = "run-1", **changes: object) -> Run:
    """A DDP run of ``world_size`` ranks."""
    ranks = tuple(
        Rank(
            rank=rank,
            pid=4000 + rank,
            hostname="node7",
            local_rank=rank,
            world_size=world_size,
            state=state,
            step=step,
            last_log_at=EPOCH,
            metrics={"loss": 0.431 + 0.01 * rank, "samples_per_s": 460.0, "epoch": 2.0, "lr": 0.1},
            facts={"progress": {"total_steps": 5000}},
        )
        for rank in range(world_size)
    )
    base = Run(
        run_id=run_id,
        name="resnet18-ddp",
        state=state,
        created_at=EPOCH - 600,
        world_size=world_size,
        config={"lr": 0.1, "batch_size": 256},
        command=("torchrun", "--nproc-per-node=4", "train.py"),
        ranks=ranks,
    )
    return replace(base, **changes) if changes else base  # type: ignore[arg-type]


@cache
def loss_points(world_size: int = 4, steps: int = 200, run_id: str = "run-1", start: float = EPOCH - 600) -> tuple[Points, ...]:
    """A falling loss for each rank."""
    return tuple(
        Points(
            run_id,
            rank,
            "loss",
            tuple(range(steps)),
            tuple(start + step for step in range(steps)),
            tuple(2.3 * math.exp(-step / 60) + 0.3 + 0.02 * rank + 0.05 * math.sin(step * (rank + 3)) for step in range(steps)),
        )
        for rank in range(world_size)
    )


@cache
def _devices() -> tuple[Device, ...]:
    return tuple(device(index) if index < 4 else idle_device(index) for index in range(8))


@cache
def _processes() -> tuple[Process, ...]:
    return tuple(rank_process(rank, (DeviceUse(_devices()[rank].uuid, int(70.5 * GIB), 97.0, "C"),)) for rank in range(4))


@cache
def _host() -> Host:
    return Host(
        hostname="node7",
        boot_id="b00t",
        source="nvml",
        driver_version="580.95.05",
        cuda_version="13.0",
        cpu_count=96,
        cpu_percent=34.0,
        memory_total_bytes=1007 * GIB,
        memory_used_bytes=210 * GIB,
    )


def snapshot(sequence: int = 0, **changes: object) -> Snapshot:
    """Eight H100s, four of them used by a DDP run of four ranks."""
    made: dict[str, object] = {
        "sequence": sequence,
        "time": EPOCH + sequence,
        "monotonic_s": 1000.0 + sequence,
        "interval_s": 1.0,
        "host": _host(),
        "devices": _devices(),
        "processes": _processes(),
        **changes,
    }
    if "runs" not in made:
        made["runs"] = (run(),)
    if "points" not in made:
        made["points"] = loss_points() if sequence == 0 else ()
    return Snapshot(**made)  # type: ignore[arg-type]


def ranks_on_one_gpu(sequence: int = 0) -> Snapshot:
    """Four ranks, all on GPU 0; seven GPUs idle: the fault A07."""
    busy = device(0, memory_used_bytes=60 * GIB)
    devices = (busy, *(idle_device(index) for index in range(1, 8)))
    processes = tuple(rank_process(rank, (DeviceUse(busy.uuid, 15 * GIB, 24.0, "C"),)) for rank in range(4))
    return snapshot(sequence, devices=devices, processes=processes)


if __name__ == "__main__":
    # The golden file: tests/golden/snapshot.json.
    print(json.dumps(json.loads(snapshot(points=()).to_json()), indent=1))
