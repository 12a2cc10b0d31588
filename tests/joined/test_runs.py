"""Runs joined over hosts: what belongs together is one run, each rank once, whoever lists it and whatever the clocks say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.joined.runs import JoinedRun, Pace, Seen, by_our_clock, join, slowest
from gputop.process import ProcessCurve, ProcessRun
from gputop.snapshot import DeviceUse, Host, Rank, Run, Snapshot
from tests import samples

NOW = samples.EPOCH


def rank(number: int, hostname: str, **changes: object) -> Rank:
    base = Rank(number, 100 + number, hostname, number % 4, 8, "running", step=7, last_log_at=NOW, metrics={"loss": 0.5})
    return replace(base, **changes)  # type: ignore[arg-type]


def machine(name: str, *runs: Run) -> Snapshot:
    return Snapshot(0, NOW, 0.0, 1.0, Host(name), runs=runs)


def run(*ranks: Rank, run_id: str = "r1", world_size: int | None = 8) -> Run:
    return Run(run_id, "llama", state="running", created_at=NOW - 60, world_size=world_size, ranks=ranks)


def two_hosts(**changes: object) -> list[Seen]:
    first, second = ([rank(number, name, **changes) for number in numbers] for name, numbers in HOSTS.items())
    return [Seen("a", machine("node-a", run(*first))), Seen("b", machine("node-b", run(*second)))]


HOSTS = {"node-a": range(4), "node-b": range(4, 8)}


def only(found: Sequence[JoinedRun]) -> JoinedRun:
    assert len(found) == 1
    return found[0]


def test_ranks_are_joined_with_their_host_and_gpu() -> None:
    seen = two_hosts()
    used = samples.rank_process(0, (DeviceUse(samples.device(3).uuid),), pid=104)
    there = replace(seen[1].snapshot, devices=(samples.device(3),), processes=(used,))
    found = only(join([seen[0], replace(seen[1], snapshot=there)]))
    assert [held.rank for held in found.run.ranks] == list(range(8))
    assert [(part.host, part.ranks) for part in found.parts] == [("a", (0, 1, 2, 3)), ("b", (4, 5, 6, 7))]
    assert found.parts[1].devices[4] == (3,)
    assert (found.missing, found.elsewhere, found.silent) == ((), (), ())


def test_what_is_missing_is_named() -> None:
    first, second = two_hosts()
    found = only(join([first]))
    assert found.missing == (4, 5, 6, 7)
    lost = only(join([first, replace(second, current=False)]))
    assert (lost.missing, lost.silent) == ((), ("b",))
    shared = replace(first.snapshot.runs[0], ranks=(*first.snapshot.runs[0].ranks, *second.snapshot.runs[0].ranks))
    assert only(join([Seen("a", machine("node-a", shared))])).elsewhere == ("node-b",)


def test_of_a_shared_directory_a_run_is_where_its_ranks_are_and_not_where_it_is_listed() -> None:
    alone = run(rank(0, "node-a"), world_size=1)
    assert only(join([Seen(name, machine(f"node-{name}", alone)) for name in ("b", "a")])).places == ("a",)
    unwatched = run(rank(0, "node-c"), world_size=1)
    assert only(join([Seen(name, machine(f"node-{name}", unwatched)) for name in ("a", "b")])).places == ("node-c",)
    unknown = run(Rank(0, state="running"), world_size=1)
    assert only(join([Seen(name, machine(f"node-{name}", unknown)) for name in ("a", "b")])).places == ("a",)
    ended = run(rank(0, "node-a", state="finished"), world_size=1)
    assert only(join([Seen("b", machine("node-b", ended))])).places == ("b",)


def test_a_curve_from_a_file_says_nothing_about_other_ranks() -> None:
    """Such a run lists the rank that writes the file, and the size of the world that its processes were given."""
    ours = run(rank(0, "node-a"), world_size=2)
    process_run = ProcessRun("launcher:1", "train.py", world_size=2, curves=(ProcessCurve(ours.run_id, "its output"),))
    found = only(join([Seen("a", replace(machine("node-a", ours), process_runs=(process_run,)))]))
    assert (found.source, found.missing) == ("its output", ())


def test_unrelated_processes_are_not_joined() -> None:
    mine = run(rank(0, "node-a"), world_size=1)
    named_alike = run(rank(0, "node-b"), run_id="r2", world_size=1)
    given_one_id = run(rank(0, "node-b", pid=7), world_size=1)
    other_size = run(rank(1, "node-b"), world_size=2)
    for other in (named_alike, given_one_id, other_size):
        assert len(join([Seen("a", machine("node-a", mine)), Seen("b", machine("node-b", other))])) == 2
    moved = run(rank(0, "node-b", pid=7), world_size=1)
    ended = run(rank(0, "node-a", state="killed"), world_size=1)
    found = only(join([Seen("a", machine("node-a", ended)), Seen("b", machine("node-b", moved))]))
    assert [part.host for part in found.parts] == ["b"]


def test_of_a_rank_without_a_machine_the_newest_record_counts() -> None:
    ours = Rank(0, state="running", step=8, last_log_at=20.0)
    theirs = Rank(1, state="running", step=7, last_log_at=19.0)
    older = Rank(0, state="running", step=3, last_log_at=10.0)
    seen = [Seen("a", machine("a", run(ours, world_size=None))), Seen("b", machine("b", run(older, theirs, world_size=None)))]
    found = only(join(seen))
    assert found.run.ranks == (ours, theirs)
    assert (found.run.step, found.known_by) == (7, ("a", "b"))


def test_a_state_of_a_newer_version_is_taken() -> None:
    newer = rank(0, "node-a", state="hibernating")
    assert only(join([Seen("a", machine("node-a", run(newer)))])).run.state == "hibernating"


def test_the_slowest_host_is_the_one_that_is_waited_for() -> None:
    even = {"a": Pace(0.1, 0.06), "b": Pace(0.1, 0.059)}
    assert slowest(even) is None
    assert slowest({"a": Pace(0.1, 0.06)}) is None
    waited = slowest({"a": Pace(0.1, 0.06), "b": Pace(0.1, 0.03), "c": Pace(0.1, 0.062)})
    assert waited is not None
    assert (waited.host, waited.waited_for, round(waited.share, 2)) == ("b", True, 0.31)
    alone = slowest({"a": Pace(0.1), "b": Pace(0.13, 0.05)})
    assert alone is not None
    assert (alone.host, alone.waited_for, round(alone.share, 2)) == ("b", False, 0.3)


SPLITS = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(SPLITS, st.randoms(use_true_random=False), st.booleans())
def test_a_run_that_is_spread_over_hosts_is_the_same_run(split: list[int], chance: object, shared: bool) -> None:
    names = sorted(set(split))
    ranks = [rank(number, f"node-{place}") for number, place in enumerate(split)]
    seen = []
    for place in names:
        listed = ranks if shared else [held for held in ranks if held.hostname == f"node-{place}"]
        seen.append(Seen(f"h{place}", machine(f"node-{place}", run(*listed, world_size=len(split)))))
    chance.shuffle(seen)  # type: ignore[attr-defined]
    found = only(join(seen))
    assert found.run.ranks == tuple(ranks)
    assert found.missing == ()
    assert {part.host: part.ranks for part in found.parts} == {
        f"h{place}": tuple(number for number, held in enumerate(split) if held == place) for place in names
    }


@given(st.dictionaries(st.integers(0, 7), st.sampled_from(["node-a", "node-b", "node-c"]), min_size=1), st.integers(0, 8))
def test_seen_and_missing_ranks_make_the_world(places: dict[int, str], world: int) -> None:
    ranks = [rank(number, name) for number, name in places.items()]
    found = only(join([Seen("a", machine("node-a", run(*ranks, world_size=world)))]))
    assert {held.rank for held in found.run.ranks} | set(found.missing) == set(places) | set(range(world))
    assert not {held.rank for held in found.run.ranks} & set(found.missing)


@given(st.lists(st.sampled_from(["r1", "r2", "r3"]), min_size=1, max_size=6))
def test_runs_of_different_ids_stay_apart(ids: list[str]) -> None:
    seen = [Seen(str(at), machine(f"n{at}", run(rank(at, f"n{at}"), run_id=name))) for at, name in enumerate(ids)]
    found = join(seen)
    assert sorted(item.run.run_id for item in found) == sorted(set(ids))
    assert sum(len(item.run.ranks) for item in found) == len(ids)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_clocks_that_are_off_change_nothing(first_off: float, second_off: float) -> None:
    straight = two_hosts()
    off = [
        replace(one, clock_offset_s=offset, snapshot=machine(name, by_our_clock(one.snapshot.runs[0], -offset)))
        for one, offset, name in zip(straight, (first_off, second_off), HOSTS, strict=True)
    ]
    found, expected = only(join(off)), only(join(straight))
    for held, wanted in zip(found.run.ranks, expected.run.ranks, strict=True):
        assert held.last_log_at == pytest.approx(wanted.last_log_at, abs=1e-3)
    assert found.run.created_at == pytest.approx(expected.run.created_at, abs=1e-3)
