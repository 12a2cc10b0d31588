"""What untracked trainings held before, from a stream of snapshots."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.evidence.held import HeldPast
from gputop.snapshot import Process
from gputop.whereabouts.records import HeldList, HeldModels, Holdings
from tests import samples

PROCESS = Process(pid=7, started_at=5.0)


def watched(*held: Holdings | None) -> tuple[HeldPast, Process]:
    """What is known of a process after it held these, one after the other, and its last record."""
    past, process = HeldPast(), PROCESS
    for number, item in enumerate(held):
        process = replace(PROCESS, held=item)
        past.observe(replace(samples.snapshot(number), processes=(process,)))
    return past, process


def of_lists(**lengths: int) -> Holdings:
    return Holdings(lists=tuple(HeldList(name, length) for name, length in sorted(lengths.items())))


def test_epochs_count_from_the_first_one_that_is_known() -> None:
    past, process = watched(Holdings(), Holdings(epoch=4), Holdings(epoch=6))
    assert past.epochs_begun(process) == 2
    assert past.epochs_begun(replace(process, held=Holdings())) == 0
    assert past.epochs_begun(replace(process, held=None)) == 0
    assert past.epochs_begun(replace(process, started_at=6.0)) == 0, "that is another process"


def test_a_model_that_was_once_in_training_mode_has_trained() -> None:
    evaluates = Holdings(HeldModels(("Net",), evaluates=True))
    assert not HeldPast.has_trained(*watched(evaluates, Holdings()))
    assert HeldPast.has_trained(*watched(Holdings(HeldModels(("Net",))), evaluates))


def test_the_list_that_grew_most_is_named_and_one_that_shrinks_begins_anew() -> None:
    grown = HeldPast.grown_list
    assert grown(*watched(of_lists(a=10, b=100))) is None
    assert grown(*watched(of_lists(a=10, b=100), of_lists(a=19, b=190))) is None, "neither has doubled"
    assert grown(*watched(of_lists(a=10, b=100), of_lists(a=20, b=190))) == ("a", 10, 20)
    assert grown(*watched(of_lists(a=10, b=100), of_lists(a=90, b=200))) == ("b", 100, 200)
    assert grown(*watched(of_lists(a=10), of_lists(a=50), of_lists(a=30), of_lists(a=40))) is None, "one of each epoch"
    assert grown(*watched(of_lists(a=10), of_lists(a=50), of_lists(), of_lists(a=60))) is None
    assert grown(*watched(of_lists(a=10), of_lists(a=50), None)) is None


def test_what_has_ended_is_forgotten() -> None:
    past, process = watched(of_lists(a=10), of_lists(a=50))
    assert past.grown_list(process) == ("a", 10, 50)
    past.observe(samples.snapshot(9))
    assert past.grown_list(process) is None
