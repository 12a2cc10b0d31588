"""What follows from where ranks are: who is behind, and how ranks at one place are told together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gputop.cli.where import lines
from gputop.snapshot import FormatError
from gputop.tui.drawing.line import Line
from gputop.tui.drawing.whereabouts import whereabouts_lines
from gputop.where import last_words
from gputop.whereabouts.records import RankPlace, Whereabouts
from gputop.whereabouts.verdict import judged, summary
from gputop.whereabouts.words import folded, sentence, way_to_lines, who

NOW = 1000.0


def at(rank: int, line: str | None = "train.py:88", function: str | None = "train_step", **more: object) -> RankPlace:
    known = RankPlace(rank, 4000 + rank, "node7", "answers", "rank", line, function, "other", at=NOW, since=NOW - 35.0)
    return replace(known, **more)  # type: ignore[arg-type]


def waiting(rank: int, begun: int | None = 412, **more: object) -> RankPlace:
    done = None if begun is None else begun - 1
    return at(rank, **{"operation": "all_reduce", "begun": begun, "completed": done, **more})


def elsewhere(rank: int, **more: object) -> RankPlace:
    return at(rank, "data.py:17", "__getitem__", **{"phase": "data", "begun": 411, "completed": 411, **more})


def ask(*places: RankPlace) -> Whereabouts:
    return judged("run", "resnet18", NOW, places)


def test_ranks_at_one_place_are_listed_together_and_the_one_behind_alone() -> None:
    places = [waiting(rank) if rank != 3 else elsewhere(3, doing="reads /data/x") for rank in range(8)]
    found = ask(*places)
    assert found.behind == (3,)
    assert found.verdict == "ranks 0-2, 4-7 wait in all_reduce #412 for rank 3, which has begun 411 collectives of 412"
    told = [(who(group), sentence(group, NOW)) for group in folded(places)]
    assert told == [
        ("ranks 0-2, 4-7", "train.py:88 in train_step, wait in all_reduce #412, for 35s"),
        ("rank 3", "data.py:17 in __getitem__, in data, reads /data/x, for 35s"),
    ]


def test_the_next_collective_of_a_rank_that_is_behind_is_named_by_those_that_wait_in_it() -> None:
    found = ask(waiting(0), waiting(1), elsewhere(2))
    assert [(place.next_operation, place.next_number) for place in found.ranks] == [(None, None)] * 2 + [("all_reduce", 412)]
    told = "data.py:17 in __getitem__, in data, for 35s; its next collective is all_reduce #412"
    assert sentence(found.ranks[2:], NOW) == told
    backward = at(0, phase="backward", begun=412, completed=411)
    (late,) = [place for place in ask(backward, elsewhere(1)).ranks if place.rank == 1]
    assert late.next_operation == "the exchange of gradients"


def test_a_next_collective_in_which_no_rank_waits_cannot_be_known() -> None:
    found = ask(waiting(0), elsewhere(1, begun=409, completed=409), elsewhere(2, begun=410, completed=410))
    assert [(place.next_operation, place.next_number) for place in found.ranks[1:]] == [(None, 410), (None, 411)]
    assert "its next collective is #410, of a kind that is not known: no rank waits in it" in sentence(found.ranks[1:2], NOW)
    assert len(folded(found.ranks)) == 3
    for nobody in (ask(waiting(0), waiting(1)), ask(waiting(0, None), elsewhere(1, begun=None, completed=None))):
        assert all(place.next_number is None for place in nobody.ranks)


def test_the_only_rank_exchanges_no_gradients_in_backward() -> None:
    place = at(0, phase="backward", world_size=1)
    assert sentence([place], NOW) == "train.py:88 in train_step, in backward, for 35s"
    assert replace(place, world_size=2).waits


@pytest.mark.parametrize(
    ("late", "words"),
    [
        (elsewhere(1, state="stopped"), "rank 1, which is stopped by a signal (T)"),
        (elsewhere(1, state="disk"), "rank 1, which waits for a disk (D)"),
        (elsewhere(1, state="silent"), "rank 1, which does not answer"),
        (RankPlace(1, 4001, state="ended", exit_code=3), "rank 1, which has ended"),
    ],
    ids=["stopped", "disk", "silent", "ended"],
)
def test_a_rank_that_cannot_answer_is_the_one_that_is_waited_for(late: RankPlace, words: str) -> None:
    found = ask(waiting(0), late)
    assert (found.behind, found.verdict) == ((1,), f"rank 0 waits for {words}")


def test_a_rank_that_waits_and_cannot_answer_is_not_the_one_that_is_waited_for() -> None:
    mute = elsewhere(1, state="silent", source="signal")
    found = ask(waiting(0, 410, state="silent", source="signal"), mute)
    assert (found.behind, found.verdict) == ((1,), "rank 0 waits for rank 1, which does not answer")


def test_without_counts_the_ranks_outside_the_collective_are_named() -> None:
    found = ask(waiting(0, None), waiting(1, None), elsewhere(2, begun=None, completed=None))
    assert (found.behind, found.verdict) == ((2,), "ranks 0, 1 wait in all_reduce, rank 2 is elsewhere")


def test_a_group_of_some_ranks_has_counts_of_its_own() -> None:
    group = {"77": (2, 9)}
    found = ask(waiting(0, 5, groups=group), elsewhere(1, begun=5, completed=5, groups={"77": (2, 8)}), elsewhere(2, begun=5))
    assert found.behind == (1,)


def test_ranks_in_different_collectives_are_listed_with_both() -> None:
    found = ask(waiting(0), waiting(1), waiting(2, operation="barrier"))
    assert found.behind == (2,)
    assert found.verdict == (
        "The ranks wait for one another in different collectives: ranks 0, 1 in all_reduce; rank 2 in barrier"
    )


@pytest.mark.parametrize(
    "places",
    [
        (elsewhere(0), elsewhere(1)),
        (waiting(0, since=NOW - 0.1), elsewhere(1)),
        (waiting(0, since=NOW - 9.0), waiting(1, since=NOW - 9.0)),
        (waiting(0),),
        (RankPlace(0, state="elsewhere"), RankPlace(1, state="untracked")),
    ],
    ids=["nobody waits", "only just", "all in the same", "alone", "nobody can be asked"],
)
def test_ranks_that_are_not_behind(places: tuple[RankPlace, ...]) -> None:
    assert (ask(*places).behind, ask(*places).verdict) == ((), None)


def test_a_rank_with_fewer_batches_waits_in_another_collective_than_the_gradients_of_the_others() -> None:
    more = waiting(0, operation=None, phase="backward")
    found = ask(more, waiting(1, operation="barrier"))
    assert (found.behind, found.verdict) == (
        (0, 1),
        "The ranks wait for one another in different collectives: rank 1 in barrier; rank 0 in the exchange of gradients",
    )
    assert ask(more, replace(more, rank=2), waiting(1, operation="barrier")).behind == (1,)
    for computes in (replace(more, completed=412), replace(more, begun=None, completed=None)):
        assert ask(computes, waiting(1, operation="barrier")).verdict is None, "whether it exchanges anything is not known"


def test_a_rank_that_does_not_send_is_the_one_that_a_receiver_waits_for() -> None:
    """torch does not count messages between two ranks: its counts are equal."""
    late = elsewhere(1, begun=412, completed=412)
    found = ask(waiting(0, operation="recv"), late, waiting(2, operation="irecv", completed=412))
    assert (found.behind, found.verdict) == ((1,), "ranks 0, 2 wait in irecv and recv, rank 1 is elsewhere")
    assert ask(waiting(0, operation="recv"), replace(late, since=NOW - 0.1)).behind == (), "it may only just have come there"
    assert sentence([waiting(0, operation="recv")], NOW) == "train.py:88 in train_step, waits in recv, for 35s"


def test_ranks_that_all_wait_in_one_collective_do_not_wait_for_nobody() -> None:
    """A broadcast in which each names another source, or sizes that differ: all wait, and none is behind."""
    found = ask(waiting(0, operation="broadcast"), waiting(1, operation="broadcast"))
    assert (found.behind, summary(found)) == ((), found.verdict)
    assert found.verdict == (
        "all ranks have waited in broadcast #412 for 35s, and none has begun fewer: they may name different sources or sizes, "
        "or not reach each other"
    )
    pending = [waiting(rank, operation=None) for rank in (0, 1)]
    assert "waited in a collective #412" in (ask(*pending).verdict or ""), "asynchronous, and something needs its result"
    gradients = [waiting(rank, operation=None, phase="backward") for rank in (0, 1)]
    assert "waited in the exchange of gradients #412" in (ask(*gradients).verdict or "")


@pytest.mark.parametrize(
    "places",
    [
        [waiting(rank, since=NOW - 9.0) for rank in (0, 1)],
        [waiting(rank, 1) for rank in (0, 1)],
        [waiting(rank, operation=None, phase="backward", completed=412) for rank in (0, 1)],
        [waiting(0), replace(elsewhere(1), begun=412)],
        [waiting(0, operation="send"), waiting(1, operation="recv")],
    ],
    ids=["not for long", "they connect", "backward computes", "one is elsewhere", "one sends, one receives"],
)
def test_ranks_that_may_just_be_slow_are_not_at_a_standstill(places: list[RankPlace]) -> None:
    assert "have waited" not in (summary(ask(*places)) or "")


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("recv", "all ranks have waited in recv for 35s, and none sends"),
        ("send", "all ranks have waited in send for 35s, and none receives"),
    ],
)
def test_ranks_that_all_do_the_same_half_of_an_exchange(operation: str, words: str) -> None:
    assert ask(waiting(0, operation=operation), waiting(1, operation=operation)).verdict == words


def test_ranks_that_do_not_meet_are_reported_after_a_minute() -> None:
    """The name of the host is wrong, or other ranks were never started. A large launch takes its time."""
    meeting = {"operation": "init_process_group", "begun": None}
    assert ask(waiting(0, **meeting), waiting(1, **meeting)).verdict is None
    found = ask(*(waiting(rank, **meeting, since=NOW - 90.0) for rank in (0, 1)))
    assert (found.behind, found.verdict) == (
        (),
        "all ranks here have waited in init_process_group for 1m30s: they do not reach the address at which they meet, "
        "or other ranks are missing",
    )


def test_ranks_of_one_machine_say_that_they_are_not_all() -> None:
    found = ask(*(waiting(rank, world_size=4) for rank in (0, 1)))
    assert found.verdict == (
        "all ranks here have waited in all_reduce #412 for 35s: whether another machine's rank is behind, gputop where -H shows"
    )


def unasked(rank: int, **more: object) -> RankPlace:
    known = RankPlace(rank, 4000 + rank, state="untracked", process_state="S", kernel_function="futex_do_wait")
    return replace(known, **more)  # type: ignore[arg-type]


def test_of_ranks_that_cannot_be_asked_the_one_that_does_something_else_may_be_behind() -> None:
    late = unasked(1, kernel_function="pipe_read", doing="reads its standard input")
    assert summary(ask(unasked(0), late, unasked(2))) == (
        "which rank is behind is not known; it may be rank 1, which reads its standard input"
    )
    two = [unasked(0), replace(late, doing="sleeps"), unasked(2), unasked(3, doing="sleeps")]
    assert summary(ask(*two)) == "which rank is behind is not known; it may be one of ranks 1, 3, which sleep"
    stopped = unasked(1, state="stopped", process_state="T")
    assert summary(ask(unasked(0), stopped)) == (
        "which rank is behind is not known; it may be rank 1, which is stopped by a signal (T)"
    )
    runs = unasked(1, process_state="R", still=False)
    assert summary(ask(unasked(0, still=True), runs)) == (
        "which rank is behind is not known; it may be rank 1, which runs while the others wait"
    )
    assert "may be" not in (summary(ask(unasked(0, still=False), runs)) or ""), "healthy ranks get a core from time to time"
    assert "may be" not in (summary(ask(unasked(0, still=False), late)) or ""), "it is no wait for the one that sleeps"
    assert ask(unasked(0), late).behind == ()
    for places in ([unasked(0), unasked(1)], [replace(late, rank=0), late], [unasked(0, process_state="R"), late], [late]):
        assert "may be" not in (summary(ask(*places)) or ""), places


def test_py_spy_shows_who_is_in_no_collective() -> None:
    seen = {"source": "py-spy", "line": "train.py:88", "function": "sync"}
    ahead, late = unasked(0, **seen, operation="all_reduce"), unasked(1, **{**seen, "function": "validate"})
    assert summary(ask(ahead, late)) == (
        "which rank is behind is not known; it may be rank 1, which is in no collective while rank 0 is in all_reduce"
    )
    assert "may be" not in (summary(ask(ahead, replace(ahead, rank=1))) or "")


def test_sentences_for_a_run_in_which_no_rank_is_behind() -> None:
    assert summary(ask(elsewhere(0), elsewhere(1))) == "no rank waits for another"
    assert summary(ask(elsewhere(0), elsewhere(1, state="untracked"))) == "whether a rank is behind is not known"
    assert summary(ask(RankPlace(0, state="ended"), RankPlace(1, state="elsewhere"))) == "no rank is alive on this machine"
    assert summary(ask(elsewhere(0))) is None


FORKED = [RankPlace(None, 5000 + number, "node7", "forked") for number in range(2)]


@pytest.mark.parametrize(
    "places",
    [
        (waiting(0, operation="all_reduce", begun=None), waiting(1, operation="broadcast", begun=None)),
        tuple(waiting(rank, operation="all_reduce" if rank else "broadcast") for rank in range(4)),
        (waiting(0), waiting(1)),
        (waiting(0), elsewhere(1)),
        (waiting(0), RankPlace(1, 4001, state="ended", exit_code=3)),
        (RankPlace(0, 4000, state="ended"), RankPlace(1, 4001, state="ended")),
        (waiting(0),),
        (elsewhere(0),),
    ],
    ids=["two collectives", "one in another", "none behind", "one behind", "one ended", "all ended", "one", "one elsewhere"],
)
def test_what_a_rank_forked_is_listed_and_changes_no_verdict(places: tuple[RankPlace, ...]) -> None:
    alone, beside = ask(*places), ask(*places, *FORKED)
    assert (beside.verdict, beside.behind, summary(beside)) == (alone.verdict, alone.behind, summary(alone))
    assert beside.ranks == (*alone.ranks, *FORKED)


def test_a_process_that_cannot_be_asked_is_described_by_what_proc_shows() -> None:
    known = RankPlace(0, 4000, state="untracked", process_state="S", kernel_function="futex_do_wait")
    unseen = "its line is not known: gputop does not run in it"
    assert sentence([known], NOW) == f"waits in futex_do_wait; {unseen}"
    assert sentence([replace(known, process_state="R")], NOW) == f"runs; {unseen}"
    assert sentence([replace(known, process_state="Z", kernel_function=None)], NOW) == f"state Z; {unseen}"
    assert sentence([replace(known, doing="sleeps", cpu_percent=4.0)], NOW) == f"sleeps, 4% of a core; {unseen}"
    assert sentence([replace(known, process_state=None)], NOW) == unseen
    assert sentence([replace(known, source="py-spy", line="train.py:3", function="main")], NOW) == "train.py:3 in main"
    assert sentence([RankPlace(1, 4001, state="elsewhere")], NOW) == "runs on another machine: ask there"


@pytest.mark.parametrize(
    ("place", "one", "several"),
    [
        (waiting(0), "train.py:88 in train_step, waits in all", "train.py:88 in train_step, wait in all"),
        (at(0, doing="reads /data/x"), "train.py:88 in train_step, reads /data/x", "train.py:88 in train_step, read /data/x"),
        (at(0, doing="sleeps"), "train.py:88 in train_step, sleeps, for", "train.py:88 in train_step, sleep, for"),
        (
            at(0, doing="py-spy failed: no"),
            "train.py:88 in train_step, py-spy failed",
            "train.py:88 in train_step, py-spy failed",
        ),
        (at(0, None), "none of the script's lines is on its stack", "none of the script's lines is on their stacks"),
        (RankPlace(0, state="silent"), "does not answer", "do not answer"),
        (
            RankPlace(0, state="silent", process_state="R"),
            "does not answer: C code runs and keeps Python's lock",
            "do not answer: C code runs and keeps Python's lock",
        ),
        (
            elsewhere(0, state="stopped"),
            "is stopped by a signal (T), last seen at",
            "are stopped by a signal (T), last seen at",
        ),
        (RankPlace(0, state="traced"), "is held by a debugger", "are held by a debugger"),
        (RankPlace(0, state="disk"), "waits for a disk (D)", "wait for a disk (D)"),
        (RankPlace(0, state="elsewhere"), "runs on another machine", "run on another machine"),
        (
            RankPlace(0, state="untracked", process_state="R"),
            "runs; its line is not known: gputop does not run in it",
            "run; their lines are not known: gputop does not run in them",
        ),
        (
            RankPlace(0, state="before_torch", process_state="S", kernel_function="pipe_read"),
            "waits in pipe_read; has not imported torch",
            "wait in pipe_read; have not imported torch",
        ),
        (
            RankPlace(0, state="forked", doing="waits for a child process"),
            "waits for a child process; says nothing before its first step: its parent forked it",
            "wait for a child process; say nothing before their first step: their parent forked them",
        ),
        (RankPlace(0, state="ended"), "its process is gone", "their processes are gone"),
        (RankPlace(0, state="ended", exit_code=3), "ended with exit code 3", "ended with exit code 3"),
    ],
)
def test_sentences_agree_with_one_rank_and_with_several(place: RankPlace, one: str, several: str) -> None:
    assert sentence([place], NOW).startswith(one)
    assert sentence([place, replace(place, rank=1)], NOW).startswith(several)


def test_sentences_agree_with_several_processes_without_a_rank() -> None:
    places = [RankPlace(None, pid) for pid in (41, 42)]
    assert (who(places[:1]), who(places)) == ("process 41", "processes 41, 42")


def test_processes_that_do_different_things_are_listed_separately() -> None:
    """The first one's state stood for all of them."""
    known = RankPlace(0, 4000, state="untracked", process_state="S", kernel_function="futex_do_wait")
    others = [
        replace(known, rank=1),
        replace(known, rank=2, process_state="R"),
        replace(known, rank=3, kernel_function="pipe_read"),
    ]
    assert [who(group) for group in folded([known, *others])] == ["ranks 0, 1", "rank 2", "rank 3"]
    spinning = RankPlace(0, 4000, state="silent", process_state="R")
    assert len(folded([spinning, replace(spinning, rank=1, process_state="S")])) == 2


def test_an_answer_survives_its_line_and_garbage_does_not() -> None:
    found = ask(waiting(0, groups={"77": (2, 9)}), RankPlace(1, 4001, state="ended", exit_code=3))
    line = found.to_json().encode()
    assert Whereabouts.is_in(line)
    assert Whereabouts.from_json(line) == found
    for wrong in (b"", b"{}", b'{"whereabouts":3}'):
        with pytest.raises(FormatError):
            Whereabouts.from_json(wrong)


def test_what_faulthandler_writes_is_read() -> None:
    text = 'Current thread 0x00007f (most recent first):\n  File "/home/\\xe9 x/train.py", line 7 in hold\n  File "a", line x\n'
    assert [str(frame) for frame in last_words.parse(text)] == ["train.py:7 hold"]
    assert last_words.parse(text)[0].path == "/home/é x/train.py"


def test_where_names_the_command_that_reads_unknown_lines() -> None:
    unseen = RankPlace(0, 4000, state="untracked", process_state="R")
    command = "gputop where 4000 --py-spy"
    assert way_to_lines([unseen]) == command
    assert way_to_lines([waiting(0)]) is None
    assert way_to_lines([replace(unseen, source="py-spy", line="train.py:3", function="main")]) is None
    assert way_to_lines([RankPlace(0, 4000, state="ended")]) is None
    answer = ask(unseen)
    assert lines(answer)[-1].startswith(command)
    assert command in text_of_lines(whereabouts_lines(answer, 100, NOW))
    for elsewhere_said in (
        "\n".join(lines(answer, by_host=True)),
        text_of_lines(whereabouts_lines(answer, 100, NOW, remote=True)),
    ):
        assert "py-spy" not in elsewhere_said, "it reads no process of another machine"


def text_of_lines(shown: Iterable[Line]) -> str:
    return "\n".join("".join(span.text for span in line) for line in shown)
