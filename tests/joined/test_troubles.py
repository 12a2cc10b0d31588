"""What is wrong among the hosts of a run, and which ended runs tell of a host that was not read."""

from __future__ import annotations

from dataclasses import replace

from gputop.joined.runs import Seen, join, shared_runs
from gputop.joined.troubles import REPORTED_S, failed_apart, troubles
from gputop.snapshot import RunState
from tests.joined.test_runs import NOW, machine, only, rank, run, two_hosts


def half(state: RunState) -> Seen:
    """One of two hosts, whose ranks are all in this state."""
    ranks = tuple(rank(number, "node-a", state=state) for number in range(4))
    return Seen("a", machine("node-a", replace(run(*ranks), state=state)))


def test_ranks_that_failed_on_one_host_do_not_hide_the_run_from_the_others() -> None:
    first, second = half("failed"), two_hosts()[1]
    found = only(shared_runs([first, second]))
    assert [part.host for part in found.parts] == ["b"]
    assert troubles(found) == ("ranks 0-3 failed on a",)
    gone = only(shared_runs([first, replace(second, current=False)]))
    assert troubles(gone) == ("b has not been heard from", "ranks 0-3 failed on a")
    assert shared_runs([half("failed")]) == ()


def test_a_run_that_failed_here_names_ranks_on_a_host_that_was_not_read() -> None:
    found = only(failed_apart([half("failed")], NOW + 5.0))
    assert troubles(found, ["b"]) == ("ranks 4-7 of 8 have not been heard from; no reading of b", "ranks 0-3 failed on a")
    assert failed_apart([half("failed")], NOW + REPORTED_S + 1.0) == (), "that is long ago"
    assert failed_apart([half("finished")], NOW + 5.0) == ()
    assert failed_apart([half("running")], NOW + 5.0) == (), "it is told of as a live run"
    whole = replace(half("failed").snapshot.runs[0], world_size=4)
    assert failed_apart([Seen("a", machine("node-a", whole))], NOW + 5.0) == (), "all its ranks are known"
    assert only(join([half("failed")])).failed == (("a", (0, 1, 2, 3)),)
