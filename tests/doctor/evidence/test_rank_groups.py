"""Groups that are remembered are those that are formed anew."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.evidence.rank_groups import RankGroups
from gputop.process import LaunchEnvironment, ProcessRank, ProcessRun
from gputop.snapshot import Snapshot
from tests import samples


def test_cached_groups_equal_newly_formed_ones() -> None:
    base = samples.snapshot(0)
    first, *others = base.processes
    run = base.runs[0]
    masked = replace(first, environment=LaunchEnvironment(rank=0, cuda_visible_devices="1"))
    plain = tuple(
        replace(process, run_id=None, rank=None, environment=None, launcher=None, ancestors=()) for process in base.processes
    )
    untracked = ProcessRun("pid:1", "x.py", (ProcessRank(plain[0].pid),), run_id="run-1")
    variants: list[Snapshot] = [
        base,
        replace(base, devices=(replace(base.devices[0], power_w=1.0), *base.devices[1:])),
        replace(base, devices=base.devices[1:]),
        replace(base, devices=(replace(base.devices[0], state="lost"), *base.devices[1:])),
        replace(base, processes=(masked, *others)),
        replace(base, processes=(replace(first, state="Z"), *others)),
        replace(base, processes=tuple(others)),
        replace(base, runs=(replace(run, ranks=run.ranks[1:]), *base.runs[1:])),
        replace(base, runs=()),
        replace(base, host=replace(base.host, hostname="elsewhere")),
        replace(base, processes=plain, process_runs=(untracked,)),
        replace(base, processes=plain, runs=(), process_runs=()),
    ]
    remembered = RankGroups()
    assert RankGroups().of(base)
    for variant in variants:
        for snapshot in (base, variant, variant, base):
            assert remembered.of(snapshot) == RankGroups().of(snapshot)


def test_a_group_of_the_same_records_is_not_formed_again() -> None:
    base = samples.snapshot(0)
    later = replace(base, devices=(replace(base.devices[0], power_w=1.0), *base.devices[1:]))
    remembered = RankGroups()
    (before,) = remembered.of(base)
    (after,) = remembered.of(later)
    assert after.members is before.members
    assert after.pool[0].power_w == 1.0
