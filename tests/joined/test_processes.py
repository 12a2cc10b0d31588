"""Runs without a journal over hosts, as runs to ask: joined by their id or by where they meet."""

from __future__ import annotations

from dataclasses import replace

from gputop.joined.processes import askable_runs
from gputop.joined.runs import Seen
from gputop.whereabouts.records import WhereQuestion
from tests.joined.test_untracked import FIRST, NOW, SECOND, node


def begun(one: Seen, at: float, *, run_id: str | None = None, starting: bool = False) -> Seen:
    """The host with a run that began ``at``, in a launch with this id."""
    processes = tuple(
        replace(process, environment=replace(process.environment, gputop_run_id=run_id))  # type: ignore[type-var]
        for process in one.snapshot.processes
    )
    runs = tuple(replace(run, started_at=at, starting=starting) for run in one.snapshot.process_runs)
    return replace(one, snapshot=replace(one.snapshot, processes=processes, process_runs=runs))


def test_each_host_is_asked_about_its_own_processes() -> None:
    a, b = begun(node("a", FIRST, world_size=5), NOW - 60), begun(node("b", SECOND, world_size=5), NOW - 10)
    (found,) = askable_runs([a, replace(b, clock_offset_s=90.0)])
    assert found.questions == {"a": WhereQuestion("launcher:99", (100, 101)), "b": WhereQuestion("launcher:99", (102, 103))}
    assert (found.run.run.name, found.run.run.created_at, found.run.missing) == ("train.py", NOW - 100, (4,))
    assert [(part.host, part.ranks) for part in found.run.parts] == [("a", (0, 1)), ("b", (2, 3))]
    assert not found.starting


def test_a_launch_has_one_id_wherever_its_ranks_meet() -> None:
    loopback = [node(host, ranks, address="127.0.0.1") for host, ranks in (("a", FIRST), ("b", SECOND))]
    assert len(askable_runs(loopback)) == 2
    (found,) = askable_runs([begun(one, NOW, run_id="both", starting=True) for one in loopback])
    assert found.starting
    assert set(found.questions) == {"a", "b"}


def test_a_machine_with_two_names_is_asked_once() -> None:
    a = begun(node("a", FIRST), NOW)
    again = begun(replace(a, host="b"), NOW, starting=True)
    for seen in ([a, again], [again, a]):
        (found,) = askable_runs(seen)
        assert (list(found.questions), found.starting) == (["b"], True)


def test_runs_with_duplicate_ranks_or_none_are_not_joined() -> None:
    twice = askable_runs([begun(node("a", FIRST), NOW - 9), begun(node("b", FIRST), NOW)])
    assert [list(run.questions) for run in twice] == [["b"], ["a"]], "the newest first"
    one = node("a", FIRST)
    runs = tuple(replace(run, ranks=(replace(run.ranks[0], rank=None),)) for run in one.snapshot.process_runs)
    assert askable_runs([replace(one, snapshot=replace(one.snapshot, process_runs=runs))]) == ()


def test_a_host_with_two_launchers_of_one_run_is_asked_once() -> None:
    """Two torchrun of one run on one machine: each is a run of its own among the processes."""
    a, b = begun(node("a", FIRST, world_size=6), NOW), begun(node("b", SECOND, world_size=6), NOW)
    other = begun(node("a", range(4, 6), world_size=6), NOW - 5).snapshot
    second = replace(other.process_runs[0], key="launcher:98")
    both = replace(
        a.snapshot, processes=a.snapshot.processes + other.processes, process_runs=(*a.snapshot.process_runs, second)
    )
    (found,) = askable_runs([replace(a, snapshot=both), b])
    assert [(part.host, part.ranks) for part in found.run.parts] == [("a", (0, 1, 4, 5)), ("b", (2, 3))]
    assert found.questions == {
        "a": WhereQuestion("launcher:99", (100, 101, 104, 105)),
        "b": WhereQuestion("launcher:99", (102, 103)),
    }
    assert (found.run.missing, found.run.run.created_at) == ((), NOW - 5)
