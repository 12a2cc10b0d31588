"""Which processes are ranks of runs that have ranks on other machines, too."""

from __future__ import annotations

from dataclasses import replace

from gputop.agent.run_processes import ranks_with_others_elsewhere
from gputop.process import ProcessRank, ProcessRun
from tests import samples


def test_ranks_count_if_their_run_has_more_than_this_machine_lists() -> None:
    whole = samples.run(2)
    pids = {rank.pid for rank in whole.ranks}
    assert ranks_with_others_elsewhere([replace(whole, world_size=2)], []) == frozenset()
    assert ranks_with_others_elsewhere([replace(whole, world_size=None)], []) == frozenset()
    assert ranks_with_others_elsewhere([replace(whole, world_size=4)], []) == pids


def test_ranks_of_another_machine_in_a_shared_directory_are_not_here() -> None:
    whole = samples.run(2)
    there = replace(whole.ranks[1], elsewhere=True)
    run = replace(whole, world_size=2, ranks=(whole.ranks[0], there))
    assert ranks_with_others_elsewhere([run], []) == {whole.ranks[0].pid}


def test_a_rank_that_has_ended_is_here_and_not_read() -> None:
    whole = samples.run(2)
    ended = replace(whole.ranks[1], state="finished")
    run = replace(whole, ranks=(whole.ranks[0], ended))
    assert ranks_with_others_elsewhere([replace(run, world_size=2)], []) == frozenset()
    assert ranks_with_others_elsewhere([replace(run, world_size=3)], []) == {whole.ranks[0].pid}


def test_runs_without_a_journal_count_too() -> None:
    run = ProcessRun("launcher:1", "train.py", (ProcessRank(7), ProcessRank(8)), world_size=4)
    assert ranks_with_others_elsewhere([], [run]) == {7, 8}
    assert ranks_with_others_elsewhere([], [replace(run, world_size=2)]) == frozenset()
    assert ranks_with_others_elsewhere([], [replace(run, world_size=None)]) == frozenset()
