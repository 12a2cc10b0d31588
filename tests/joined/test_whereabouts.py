"""Where the ranks of a run over hosts are: each counts as its own host says, and all together show who is behind."""

from __future__ import annotations

from dataclasses import replace

from gputop.joined.runs import JoinedRun, Part, Seen, join
from gputop.joined.whereabouts import HostAnswer, confirmed, over_hosts
from gputop.snapshot import Host, Rank, Run, Snapshot
from gputop.whereabouts.records import RankPlace, Whereabouts
from gputop.whereabouts.verdict import judged, summary
from tests.samples import EPOCH as NOW

AHEAD_S = 40.0
"""By how much the clock of b is ahead of ours."""


def rank(number: int, hostname: str, **changes: object) -> Rank:
    base = Rank(number, 100 + number, hostname, number % 2, 4, "running", last_log_at=NOW)
    return replace(base, **changes)  # type: ignore[arg-type]


def run(*hosts: str, world_size: int = 4, **changes: object) -> JoinedRun:
    """Return a run of two ranks a host, as each host lists it."""
    seen = []
    for place, name in enumerate(("a", "b")):
        ranks = tuple(rank(2 * place + number, f"node-{name}", **changes) for number in range(2))
        listed = Run("r1", "llama", state="running", created_at=NOW - 60, world_size=world_size, ranks=ranks)
        seen.append(Seen(name, Snapshot(0, NOW, 0.0, 1.0, Host(f"node-{name}"), runs=(listed,))))
    (found,) = join([one for one in seen if one.host in hosts])
    return found


def place(number: int, host: str, begun: int, clock_s: float = 0.0, **changes: object) -> RankPlace:
    at, since = NOW + clock_s, NOW - 30 + clock_s
    base = RankPlace(number, 100 + number, f"node-{host}", "answers", "rank", "train.py:8", "step", since=since, at=at)
    waits = {"operation": "all_reduce"} if begun > 10 else {}
    return replace(base, begun=begun, completed=10, **{**waits, **changes})  # type: ignore[arg-type]


def told(host: str, *places: RankPlace, clock_s: float = 0.0) -> HostAnswer:
    return HostAnswer(host, judged("r1", "llama", NOW + clock_s, places), clock_s)


A = told("a", place(0, "a", 11), place(1, "a", 11))


def test_who_is_behind_shows_only_over_all_hosts() -> None:
    b = told("b", place(2, "b", 11, AHEAD_S), place(3, "b", 10, AHEAD_S), clock_s=AHEAD_S)
    found = over_hosts(run("a", "b"), [A, b], NOW)
    assert A.answer.behind == ()
    assert found.behind == (3,)
    assert found.verdict == ("ranks 0-2 wait in all_reduce #11 for rank 3, which has begun 10 collectives of 11; rank 3 on b")
    assert [held.hostname for held in found.ranks] == ["a", "a", "b", "b"]
    assert {held.since for held in found.ranks} == {NOW - 30}
    assert {held.at for held in found.ranks} == {NOW}


def test_a_rank_counts_as_its_own_host_says() -> None:
    """Hosts with a common file system list each other's ranks, which they cannot ask."""
    others = [replace(place(number, "b", 10), state="elsewhere", since=None, at=None) for number in (2, 3)]
    a = told("a", place(0, "a", 11), place(1, "a", 11), *others)
    b = told("b", place(2, "b", 11), place(3, "b", 11))
    for order in ([a, b], [b, a]):
        found = over_hosts(run("a", "b"), order, NOW)
        assert [held.state for held in found.ranks] == ["answers"] * 4
        assert summary(found).startswith("all ranks have waited in all_reduce #11 for 30s, and none has begun fewer")
    alone = JoinedRun(run("a", "b").run, (Part("a", (0, 1), {}),), ("a",))
    found = over_hosts(alone, [a], NOW)
    assert [(held.state, held.hostname) for held in found.ranks[2:]] == [("elsewhere", "node-b")] * 2


def test_silent_ranks_are_named() -> None:
    silent = over_hosts(run("a", "b"), [A], NOW)
    assert [held.rank for held in silent.ranks] == [0, 1]
    assert summary(silent) == "which rank is behind is not known: nothing is heard from ranks 2, 3"
    assert summary(over_hosts(run("a"), [A], NOW)) == summary(silent), "no host lists ranks that should be there"
    assert summary(over_hosts(run("a", "b"), [], NOW)) == "nothing is heard from ranks 0-3"
    late = over_hosts(run("a"), [told("a", place(0, "a", 11), place(1, "a", 10))], NOW)
    assert late.behind == (1,)
    assert str(late.verdict).endswith("; rank 1 on a; nothing is heard from ranks 2, 3")
    gone = told("a", *(replace(place(number, "a", 10), state="ended") for number in (0, 1)))
    ended = over_hosts(run("a", world_size=2, state="failed"), [gone], NOW)
    assert summary(ended) == "no rank is alive on these hosts"


def test_a_rank_is_behind_only_if_two_answers_agree() -> None:
    def answer(*behind: int) -> Whereabouts:
        return Whereabouts("r1", "llama", NOW, behind=behind, verdict="words" if behind else None)

    assert confirmed(answer(1), answer(1)) == answer(1)
    assert confirmed(answer(1), answer()) == answer()
    found = confirmed(answer(1), answer(0))
    assert (found.behind, found.verdict) == ((), None)
    assert summary(found) == "the ranks continue: another one was behind a moment later"
