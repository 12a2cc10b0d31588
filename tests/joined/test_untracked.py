"""Untracked runs over hosts: joined by where their ranks meet, and by nothing that is the same everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gputop.cli.output.hosts_text import hosts_text
from gputop.hosts.state import HostStatus
from gputop.hosts.stream import Heard
from gputop.joined.runs import RANKS_MOST, JoinedRun, Seen
from gputop.joined.troubles import untracked_troubles
from gputop.joined.untracked import untracked_runs
from gputop.process import LOCAL_RANKS_MOST, LaunchEnvironment, ProcessRank, ProcessRun
from gputop.snapshot import DeviceUse, Host, Snapshot
from tests import samples

NOW = samples.EPOCH


def test_a_world_size_without_bounds_does_not_keep_the_screen_busy() -> None:
    (found,) = untracked_runs([node("a", range(2), world_size=1 << 60), node("b", range(2, 4), world_size=1 << 60)])
    assert found.missing == tuple(range(4, RANKS_MOST))
    assert ProcessRun("x", "t.py", (), local_world_size=1 << 60).missing_local_ranks == tuple(range(LOCAL_RANKS_MOST))
    run = replace(samples.run(2), world_size=1 << 60)
    whole = JoinedRun(run, (), ("a",))
    assert whole.missing == tuple(range(2, RANKS_MOST))


def node(
    host: str,
    ranks: range,
    *,
    address: str | None = "gpu1",
    port: int | None = 29500,
    world_size: int = 4,
    name: str = "train.py",
    run_id: str = "none",
    slurm: str | None = None,
) -> Seen:
    """A host on which torchrun runs these ranks, with the variables that torchrun gives its workers."""
    given = {"GROUP_RANK": "0", "MASTER_ADDR": address, "SLURM_JOB_ID": slurm}
    settings = tuple((key, value) for key, value in given.items() if value is not None)
    processes = tuple(
        replace(
            samples.rank_process(rank, (), pid=100 + rank),
            environment=LaunchEnvironment(
                rank=rank, world_size=world_size, torchelastic_run_id=run_id, master_port=port, settings=settings
            ),
        )
        for rank in ranks
    )
    listed = tuple(ProcessRank(100 + rank, rank, rank - ranks.start) for rank in ranks)
    run = ProcessRun("launcher:99", name, listed, world_size=world_size)
    return Seen(host, Snapshot(0, NOW, 0.0, 1.0, Host(host), processes=processes, process_runs=(run,)))


FIRST, SECOND = range(2), range(2, 4)


def test_ranks_that_meet_at_one_address_are_one_run() -> None:
    (found,) = untracked_runs([node("a", FIRST), node("b", SECOND)])
    assert (found.name, found.world_size, found.meets_at) == ("train.py", 4, "gpu1:29500")
    assert [(part.host, part.ranks, part.current) for part in found.parts] == [("a", (0, 1), True), ("b", (2, 3), True)]
    assert found.missing == ()
    (found,) = untracked_runs([node("a", FIRST, world_size=6), node("b", SECOND, world_size=6)])
    assert found.missing == (4, 5)


def test_silent_hosts_and_missing_ranks_are_listed() -> None:
    (found,) = untracked_runs([node("a", FIRST, world_size=6), replace(node("b", SECOND, world_size=6), current=False)])
    assert untracked_troubles(found, ["c"]) == (
        "b has not been heard from",
        "ranks 4, 5 of 6 have not been heard from; no reading of c",
    )
    assert found.as_data() == {
        "name": "train.py",
        "world_size": 6,
        "meets_at": "gpu1:29500",
        "hosts": [{"host": "a", "ranks": [0, 1], "current": True}, {"host": "b", "ranks": [2, 3], "current": False}],
        "missing_ranks": [4, 5],
    }


def test_each_rank_is_listed_with_its_gpu() -> None:
    on = {"a": (samples.device(3),), "b": (samples.device(5),)}
    seen = []
    for one in (node("a", range(1), world_size=2), node("b", range(1, 2), world_size=2)):
        (process,) = one.snapshot.processes
        uses = (DeviceUse(on[one.host][0].uuid, 1 << 30),)
        whole = replace(one.snapshot, devices=on[one.host], processes=(replace(process, devices=uses),))
        seen.append(replace(one, snapshot=whole))
    (found,) = untracked_runs(seen)
    assert [dict(part.devices) for part in found.parts] == [{0: (3,)}, {1: (5,)}]


def test_without_an_address_the_job_of_slurm_counts() -> None:
    one: dict[str, Any] = {"address": None, "port": None, "slurm": "42"}
    (found,) = untracked_runs([node("a", FIRST, **one), node("b", SECOND, **one)])
    assert found.meets_at == "Slurm job 42"
    assert untracked_runs([node("a", FIRST, **one), node("b", SECOND, **{**one, "slurm": "43"})]) == ()


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.0.1.1", "::1", "[::1]", "localhost", "localhost.localdomain", "0.0.0.0", None]
)
def test_an_address_that_every_machine_has_joins_nothing(address: str | None) -> None:
    assert untracked_runs([node("a", FIRST, address=address), node("b", SECOND, address=address)]) == ()


@pytest.mark.parametrize(
    "other",
    [
        {"port": 29501},
        {"address": "gpu2"},
        {"world_size": 8},
        {"name": "other.py"},
        {"run_id": "another"},
        {"ranks": FIRST},
        {"ranks": range(1, 3)},
        {"ranks": range(3, 5)},
    ],
)
def test_what_differs_or_collides_stays_apart(other: dict[str, Any]) -> None:
    ranks = other.pop("ranks", SECOND)
    assert untracked_runs([node("a", FIRST), node("b", ranks, **other)]) == ()


def test_a_run_with_all_ranks_on_one_machine_has_no_other_host() -> None:
    assert untracked_runs([node("a", FIRST, world_size=2), node("b", FIRST, world_size=2)]) == ()
    assert untracked_runs([node("a", FIRST)]) == (), "nothing shows where the others are"


def test_one_reading_lists_such_a_run_once_more_with_its_hosts() -> None:
    heard = [
        Heard(HostStatus(one.host, "live"), one.snapshot)
        for one in (node("a", FIRST, world_size=6), node("b", SECOND, world_size=6))
    ]
    lines = [line.split() for line in hosts_text(heard).splitlines()]
    head = lines.index(["NOT", "TRACKED", "OVER", "HOSTS", "RANKS", "MISSING", "MEETS", "AT", "HOST"])
    assert lines[head + 1] == ["train.py", "4/6", "4,", "5", "gpu1:29500", "a,", "b"]
    assert "OVER HOSTS" not in hosts_text(heard[:1])
