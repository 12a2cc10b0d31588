"""Scenes for the doctor: sequences of snapshots, one a second, of faults and of machines where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.snapshot import (
    Ancestor,
    Device,
    DeviceUse,
    Host,
    LaunchEnvironment,
    Process,
    ProcessRank,
    Rank,
    Run,
    Snapshot,
)
from gputop.untracked.found import process_runs
from tests import samples
from tests.samples import EPOCH, GIB

SHELL = (Ancestor(3000, "bash"), Ancestor(1, "systemd"))
Scene = Callable[[int], Snapshot]


def play(scene: Scene, seconds: int, doctor: Doctor | None = None, start: int = 0) -> list[tuple[Finding, ...]]:
    """What the doctor said at each second."""
    doctor = doctor or Doctor()
    said = [doctor.observe(scene(second)) for second in range(start, start + seconds)]
    # Of every finding of every scene: a verdict that nothing could refute says nothing.
    mute = {finding.id for findings in said for finding in findings if not finding.refuted_by.strip()}
    assert not mute, f"findings without refuted_by: {sorted(mute)}"
    return said


def last_verdict(scene: Scene, seconds: int = 20) -> Finding | None:
    """What stands first in the end."""
    return next(iter(play(scene, seconds)[-1]), None)


def verdict(scene: Scene, seconds: int = 60) -> Finding:
    """What stands first in the end of a scene in which something has to be said."""
    found = last_verdict(scene, seconds)
    assert found is not None, "nothing was said"
    return found


def check_first_verdict(rule: str, scene: Scene, seconds: int) -> Finding:
    """A fault's rule stands first in the end, and says what a person needs: why, what to do, and what would refute it."""
    said = play(scene, seconds)[-1]
    assert ids(said)[:1] == [rule], [(item.id, item.title) for item in said]
    assert said[0].severity in ("error", "warning", "info")
    assert said[0].evidence
    assert said[0].fix
    assert said[0].refuted_by
    assert "None" not in said[0].fix + said[0].title
    return said[0]


def not_tracked(scene: Scene) -> Scene:
    """The same, started without gputop: no journal, and nothing of gputop in the environment."""

    def stripped(second: int) -> Snapshot:
        base = scene(second)
        processes = tuple(replace(process, run_id=None) for process in base.processes)
        return replace(base, runs=(), points=(), processes=processes)

    return stripped


def only_shown(scene: Scene, facts: dict[str, Any] | None = None) -> Scene:
    """The same, started without gputop: its metrics are known from the files that it writes, or from its output."""
    outside = not_tracked(scene)

    def shown(second: int) -> Snapshot:
        base = outside(second)
        (run,) = scene(second).runs
        ranks = tuple(replace(rank, facts=facts or {}) for rank in run.ranks)
        found = tuple(
            replace(item, run_id=run.run_id, ranks=tuple(ProcessRank(process.pid) for process in base.processes))
            for item in process_runs(base.processes)
        )
        return replace(base, runs=(replace(run, ranks=ranks),), points=scene(second).points, process_runs=found)

    return shown


def ids(findings: Iterable[Finding]) -> list[str]:
    return [finding.id for finding in findings]


def first_seen(said: list[tuple[Finding, ...]], rule: str) -> int | None:
    """The second at which the finding first stood first."""
    return next((second for second, findings in enumerate(said) if findings and findings[0].id == rule), None)


def gpus(busy: Iterable[int], count: int = 8, **changes: Any) -> tuple[Device, ...]:
    working = set(busy)
    return tuple(samples.device(i, **changes) if i in working else samples.idle_device(i, **changes) for i in range(count))


def uuid(index: int) -> str:
    return samples.device(index).uuid


@cache
def use(index: int, gib: float | None = 70.5, sm: float | None = 97.0) -> DeviceUse:
    return DeviceUse(uuid(index), None if gib is None else int(gib * GIB), sm, "C")


@lru_cache(4096)  # many scenes have the same ranks at the same second
def rank(number: int, *uses: DeviceUse, world: int = 8, second: int = 0, **environment: Any) -> Process:
    """A rank of run-1 started by torchrun; backward threads at work."""
    process = samples.rank_process(number, uses, world)
    assert process.environment is not None
    return replace(
        process,
        environment=replace(process.environment, **environment) if environment else process.environment,
        autograd_threads=tuple((index, 10.0 + (second if index == number else 0)) for index in range(8)),
    )


def single(pid: int, *uses: DeviceUse, second: int = 0, visible: int = 8, mask: str | None = None, **changes: Any) -> Process:
    """One training process without a launcher or a journal, from a shell."""
    threads = tuple((index, 5.0 + (second if index == 0 else 0)) for index in range(visible))
    base = Process(
        pid=pid,
        devices=uses,
        ppid=3000,
        uid=1000,
        user="ada",
        name="python",
        command=("python", "train.py", "--lr", "0.1"),
        state="R",
        cpu_percent=103.0,
        memory_rss_bytes=3 * GIB,
        started_at=EPOCH - 600,
        environment=LaunchEnvironment(cuda_visible_devices=mask),
        ancestors=SHELL,
        torch_mapped=True,
        torch_cuda_mapped=True,
        nvidia_open=True,
        autograd_threads=threads,
    )
    return replace(base, **changes)


def journal(world: int, second: int, facts: dict[str, Any] | None = None, **changes: Any) -> Run:
    """Run-1 with steps that advance, three a second."""
    base = samples.run(world, step=100 + 3 * second, **changes)
    ranks = tuple(replace(r, last_log_at=EPOCH + second, facts=facts if facts is not None else r.facts) for r in base.ranks)
    return replace(base, ranks=ranks)


def scene(
    second: int, devices: tuple[Device, ...], processes: tuple[Process, ...] = (), runs: tuple[Run, ...] = ()
) -> Snapshot:
    return samples.snapshot(second, devices=devices, processes=processes, runs=runs, points=())


def virtual(
    second: int, busy: dict[int, float], processes: tuple[Process, ...], runs: tuple[Run, ...], count: int = 4
) -> Snapshot:
    """A machine without a GPU; ``busy`` is the utilization of its virtual GPUs."""
    devices = tuple(
        Device(index, f"virtual-{index}", f"virtual GPU {index}", "virtual", utilization_percent=busy.get(index, 0.0))
        for index in range(count)
    )
    host = Host("laptop", "b00t", "virtual", cpu_count=8, cpu_percent=30.0)
    return samples.snapshot(second, host=host, devices=devices, processes=processes, runs=runs, points=())


def virtual_rank(number: int, index: int, world: int = 2, mask: str | None = "0,1") -> Process:
    base = samples.rank_process(number, (DeviceUse(f"virtual-{index}", GIB // 2, 60.0, ""),), world)
    assert base.environment is not None
    environment = replace(base.environment, virtual_devices=mask, gputop_job_id="job-1")
    return replace(base, environment=environment, nvidia_open=False, torch_cuda_mapped=False)


def virtual_run(second: int, places: list[int], facts: dict[str, Any] | None = None) -> Run:
    base = samples.run(len(places), step=3 * second)
    ranks = tuple(
        replace(
            r,
            hostname="laptop",
            last_log_at=EPOCH + second,
            facts={"devices": [{"virtual_index": place, "uuid": None}], "model": {"parameter_device": "cpu"}, **(facts or {})},
        )
        for r, place in zip(base.ranks, places, strict=True)
    )
    return replace(base, ranks=ranks)


def one_rank(**changes: Any) -> Rank:
    return Rank(rank=0, pid=4000, hostname="node7", local_rank=0, world_size=1, state="running", **changes)
