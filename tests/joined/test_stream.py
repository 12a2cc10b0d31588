"""What the doctor gets of runs over hosts: each value once, from its own host, by our clock; and what it finds in that."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.diagnosis import Doctor
from gputop.joined.runs import Seen, shared_runs
from gputop.joined.stream import JoinedStream
from gputop.snapshot import Host, Interface, NetworkPath, Points, Rank, Run, Snapshot
from tests import samples
from tests.doctor.scenes.base import ids
from tests.doctor.scenes.near.hosts import over_hosts, slow_host, standing

OFF_S = {"a": 0.0, "b": 75.0}
"""By how much the clock of each host is ahead."""


def part(whole: Snapshot, host: str, hostname: str) -> Snapshot:
    """What one host shows of a run over two of them, with a clock of its own."""
    (run,) = whole.runs
    there = {rank.rank for rank in run.ranks if rank.hostname == hostname}
    ranks = []
    for rank in run.ranks:
        facts = dict(rank.facts)
        if "standing" in facts:
            facts["standing"] = {**facts["standing"], "since": facts["standing"]["since"] + OFF_S[host]}
        if rank.rank in there:
            ranks.append(replace(rank, facts=facts, last_log_at=(rank.last_log_at or 0.0) + OFF_S[host]))
    points = tuple(
        replace(points, times=tuple(time + OFF_S[host] for time in points.times))
        for points in whole.points
        if points.rank in there
    )
    own = replace(run, ranks=tuple(ranks))
    return replace(whole, time=whole.time + OFF_S[host], host=Host(hostname), runs=(own,), points=points)


def judged(scene: object, seconds: int) -> list[str]:
    """The findings in what two hosts send of a run, joined as it comes."""
    stream, doctor = JoinedStream(), Doctor()
    found = ()
    for second in range(seconds):
        whole: Snapshot = scene(second)  # type: ignore[operator]
        seen = []
        for host, hostname in (("a", "node1"), ("b", "node2")):
            mine = part(whole, host, hostname)
            stream.take(host, [mine], OFF_S[host])
            seen.append(Seen(host, mine, OFF_S[host]))
        found = doctor.observe(stream.snapshot(shared_runs(seen), seen, whole.time, whole.monotonic_s))
    assert not doctor.abstained
    return [f"{finding.id} {finding.title}" for finding in found]


def test_what_two_hosts_show_is_judged_together() -> None:
    assert judged(over_hosts, 70) == []
    (slow,) = judged(slow_host, 70)
    assert slow.startswith("K01 Uneven hosts: the others wait")
    assert slow.endswith("of each step for b")
    assert judged(lambda second: standing(second, (6,)), 40) == ["K02 The run hangs: rank 6 on b is behind"]


def test_each_value_comes_once_and_from_its_own_host() -> None:
    stream = JoinedStream()
    column = ((1, 2), (samples.EPOCH, samples.EPOCH + 1), (0.5, 0.4))
    both = [Points("run-1", rank, name, *column) for name in ("step_s", "loss") for rank in (0, 6)]
    seen = []
    for host, hostname in (("a", "node1"), ("b", "node2")):
        shared = replace(part(over_hosts(3), host, hostname), points=tuple(both))  # on a common file system
        stream.take(host, [shared], OFF_S[host])
        seen.append(Seen(host, shared, OFF_S[host]))
    runs = shared_runs(seen)
    first = stream.snapshot(runs, seen, samples.EPOCH, 1.0)
    assert [(points.rank, points.times[0]) for points in first.points] == [
        (0, samples.EPOCH),
        (6, samples.EPOCH - OFF_S["b"]),
    ]
    assert {rank.hostname for rank in first.runs[0].ranks} == {"a", "b"}
    assert stream.snapshot(runs, seen, samples.EPOCH, 2.0).points == ()


def test_a_run_of_one_host_is_left_to_that_host() -> None:
    alone = replace(over_hosts(3), host=Host("node1"))
    starting = Run("r2", "mine", state="starting", world_size=4)
    whole = Run("r3", "mine", state="running", world_size=1, ranks=(Rank(0, 7, "node1", 0, 1, "running"),))
    assert shared_runs([Seen("a", replace(alone, runs=(starting, whole)))]) == ()
    assert ids(Doctor().observe(JoinedStream().snapshot((), (), samples.EPOCH, 1.0))) == []


def test_the_network_of_each_host_is_passed_on_under_the_name_that_the_user_gave() -> None:
    whole = over_hosts(3)
    mine = replace(part(whole, "a", "node1"), interfaces=(Interface("eth0"),), paths=(NetworkPath("10.0.0.2", "10.0.0.1"),))
    other = replace(part(whole, "b", "node2"), interfaces=(Interface("eth0"),))
    seen = [Seen("a", mine), Seen("b", other)]
    shown = JoinedStream().snapshot(shared_runs(seen), seen, whole.time, whole.monotonic_s)
    assert shown.interfaces == (Interface("eth0", hostname="a"), Interface("eth0", hostname="b"))
    assert shown.paths == (NetworkPath("10.0.0.2", "10.0.0.1", hostname="a"),)
    lost = [Seen("a", mine), Seen("b", other, current=False)]
    shown = JoinedStream().snapshot(shared_runs(lost), lost, whole.time, whole.monotonic_s)
    assert [each.hostname for each in shown.interfaces] == ["a"], "what a lost host said last is not of now"


def with_a_lost_host(fails: bool, seconds: int = 60, lost_from: int = 20) -> set[str]:
    """The ids of all findings while nothing comes from b any more; ``fails``: the ranks of a lose their connection to it."""
    stream, doctor, kept, found = JoinedStream(), Doctor(), None, set()
    for second in range(seconds):
        whole = over_hosts(second)
        mine, other = part(whole, "a", "node1"), part(whole, "b", "node2")
        lost = second >= lost_from
        if lost and fails:
            (run,) = mine.runs
            told = {"error": {"type": "RuntimeError", "message": "Connection reset by peer", "where": "train.py:7"}}
            ranks = tuple(replace(rank, state="failed", exit_code=1, facts={**rank.facts, **told}) for rank in run.ranks)
            mine = replace(mine, runs=(replace(run, ranks=ranks),), points=())
        kept = kept if lost and kept is not None else other
        stream.take("a", [mine], OFF_S["a"])
        if not lost:
            stream.take("b", [other], OFF_S["b"])
        seen = [Seen("a", mine, OFF_S["a"]), Seen("b", kept, OFF_S["b"], current=not lost)]
        judged = doctor.observe(stream.snapshot(shared_runs(seen), seen, whole.time, whole.monotonic_s))
        found |= {finding.id for finding in (*judged, *doctor.suppressed)}
    return found


def test_what_a_lost_host_said_last_does_not_blame_the_ranks_of_another() -> None:
    assert with_a_lost_host(fails=False) == set()
    assert with_a_lost_host(fails=True) == set()
