"""Very many jobs on one machine: what a look costs is bounded, and nothing is overlooked for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.evidence import rounds, windows
from gputop.doctor.evidence.first_steps import starting_run
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.turns import JOBS_A_TURN, Turns
from gputop.process import ProcessRank, ProcessRun
from gputop.snapshot import Process, Snapshot
from tests import samples
from tests.doctor.scenes.base import gpus, ids, play, rank, scene, single, use
from tests.doctor.scenes.near import rounds as near_rounds

CROWD = 100
FROM_S = 3


def servers(second: int) -> tuple[Process, ...]:
    """One process each, of a script of its own, at work now and then."""
    return tuple(
        single(9000 + n, use(4 + n % 4, 1.0, 3.0), second=second, visible=1, mask=str(4 + n % 4), command=("python", f"{n}.py"))
        for n in range(CROWD)
    )


def crowd(second: int) -> Snapshot:
    """After some seconds, four ranks that nobody tracks join the servers, all on GPU 0."""
    ranks = tuple(
        replace(rank(n, use(0, 15, 24), world=4, second=second), run_id=None, launcher=samples.Ancestor(5999, "torchrun"))
        for n in range(4)
    )
    return scene(second, gpus([0, 4, 5, 6, 7]), (*servers(second), *(ranks if second >= FROM_S else ())))


def test_a_fault_among_many_jobs_is_found_and_stays() -> None:
    said = [ids(findings) for findings in play(crowd, 20)]
    first = next(second for second, found in enumerate(said) if "A07" in found)
    assert first < FROM_S + 15
    assert all("A07" in found for found in said[first:])


def test_one_observation_of_many_jobs_judges_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    doctor, judged = Doctor(), set[str]()
    judge = Doctor._judge_group

    def counting(self: Doctor, rule: object, group: RankGroup) -> object:
        judged.add(group.key)
        return judge(self, rule, group)  # type: ignore[arg-type]

    monkeypatch.setattr(Doctor, "_judge_group", counting)

    def look(second: int) -> int:
        judged.clear()
        doctor.observe(scene(second, gpus(range(8)), servers(second)))
        return len(judged)

    assert look(0) == CROWD
    assert {look(second) for second in range(1, 4)} == {JOBS_A_TURN}


class CountedRanks(tuple[ProcessRank, ...]):
    """The ranks of a run, which note how often they are searched."""

    searched = 0

    def __iter__(self) -> Iterator[ProcessRank]:
        CountedRanks.searched += 1
        return super().__iter__()


def test_groups_do_not_each_search_all_runs_for_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountedRanks, "searched", 0)
    runs = tuple(
        ProcessRun(f"run-{n}", "train.py", CountedRanks((ProcessRank(9000 + n), ProcessRank(1000 + n))), starting=n == 7)
        for n in range(CROWD)
    )
    snapshot = replace(scene(0, gpus(range(8)), servers(0)), process_runs=runs)
    template = RankGroup("", None, (), (), None, False, (), None, None, "", (), frozenset())
    groups = [replace(template, members=(Member(None, None, process, None, (), None, ""),)) for process in servers(0)]
    assert [starting_run(snapshot, group) for group in groups] == [runs[7] if n == 7 else None for n in range(CROWD)]
    assert starting_run(replace(snapshot, process_runs=()), groups[7]) is None
    assert CountedRanks.searched <= 2 * CROWD


@given(st.integers(0, 200), st.sets(st.integers(0, 199)), st.lists(st.integers(0, 199), max_size=5))
def test_every_job_has_its_turn(count: int, watched: set[int], ended: list[int]) -> None:
    template = RankGroup("", None, (), (), None, False, (), None, None, "", (), frozenset())
    groups = [replace(template, key=str(n)) for n in range(count)]
    turns = Turns()
    for gone in ended:
        turns.take(groups, set())
        groups = [group for group in groups if group.key != str(gone)]
    always = {str(n) for n in watched} & {group.key for group in groups}
    looks = [turns.take(groups, always) for _ in range(-(-max(1, len(groups)) // JOBS_A_TURN))]
    assert set().union(*looks) == {group.key for group in groups}
    assert all(always <= look and len(look) <= len(always) + JOBS_A_TURN for look in looks)


def test_ranks_that_all_pause_are_not_each_compared_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all evaluate every now and then, a look at 32 ranks took a second of the screen's core."""
    looked: Counter[str] = Counter()
    for owner, name in ((windows, "stalls"), (rounds, "_steps_throughout")):
        whole = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, whole=whole, name=name: (looked.update([name]), whole(*given))[1])
    counts = []
    for number in (12, 24):
        looked.clear()
        doctor, scene = Doctor(), near_rounds.rounds(lambda rank: [2.1, *[0.1] * 79], count=number)
        for second in range(45):
            doctor.observe(scene(second))
        counts.append(dict(looked))
    assert all(counts[1][name] <= 2.2 * counts[0][name] for name in counts[0]), counts
