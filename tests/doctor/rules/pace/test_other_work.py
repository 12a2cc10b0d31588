"""Untracked runs whose main threads are seen at other work: each fault, and the healthy run that resembles it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Activity, Doing
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.outside import always, outside

SECONDS = 130
OWN = Doing("other", "backup.py:25", "digest", "digest.update(piece)")
COMPUTES = (Doing("forward", "train.py:60", "fit"), Doing("backward", "train.py:61", "fit"))
Look = Callable[[int], Doing]


def computes(second: int) -> Doing:
    return COMPUTES[second % 2]


def pausing(activity: Activity | Doing, lasts: int, every: int) -> Look:
    """The last seconds of each round are other work."""
    other = activity if isinstance(activity, Doing) else Doing(activity, "train.py:9", "report", "report(step)")
    return lambda second: other if second % every >= every - lasts else computes(second)


def in_each_step(*activities: Activity) -> Look:
    return lambda second: Doing(activities[second % len(activities)], "train.py:9", "report")


def ranks(*looks: Look, **kept: object) -> Scene:
    base = outside(*[always("runs")] * len(looks), **kept)  # type: ignore[arg-type]

    def scene(second: int) -> Snapshot:
        shot = base(second)
        seen = zip(shot.processes, looks, strict=True)
        return replace(shot, processes=tuple(replace(process, doing=look(second)) for process, look in seen))

    return scene


def found(scene: Scene, seconds: int = SECONDS) -> Sequence[Finding]:
    doctor = Doctor()
    doctor.raises = True
    shown: Sequence[Finding] = ()
    for second in range(seconds):
        shown = doctor.observe(scene(second))
    return [item for item in shown if item.id in ("D01", "E07", "E10", "F01", "F02", "F05")]


def test_samples_that_are_generated_again_and_again_are_named_if_the_loop_stops_for_them() -> None:
    (finding,) = found(ranks(pausing("generation", 9, 20)))
    assert (finding.id, finding.confidence) == ("E07", "possible")
    assert finding.title == "Generating samples takes 45% of the time"
    assert "inference_mode" in finding.fix
    assert not found(ranks(pausing("generation", 6, 20))), "less of the time"
    assert not found(ranks(in_each_step("generation", "forward", "backward"))), "each step does, as in distillation"


def test_work_for_which_a_loop_pauses_every_half_a_minute_is_named_with_its_line() -> None:
    (finding,) = found(ranks(pausing(OWN, 10, 30)))
    assert (finding.id, finding.confidence) == ("E07", "possible")
    assert finding.title == "Work that trains nothing takes 33% of the time"
    assert "mostly at backup.py:25 in digest: `digest.update(piece)`" in finding.evidence[0].text


@pytest.mark.parametrize(
    ("activity", "title"),
    [
        ("wait", "The training waits for another program or service 40% of the time"),
        ("files", "Writing files takes 40% of the time"),
        ("report", "Drawing and logging take 40% of the time"),
        ("memory", "Collecting memory takes 40% of the time"),
        ("metrics", "Metrics take 40% of the time"),
    ],
)
def test_pauses_are_called_by_what_is_done_in_them(activity: Activity, title: str) -> None:
    (finding,) = found(ranks(pausing(activity, 4, 10)))
    assert (finding.id, finding.title) == ("E07", title)


def test_what_each_step_does_beside_training_takes_its_share() -> None:
    (finding,) = found(ranks(in_each_step("metrics", "forward", "metrics", "backward", "metrics")))
    assert (finding.id, finding.title) == ("E07", "Metrics take 60% of the time")
    assert "metric.reset()" in finding.fix


def test_what_takes_nearly_all_the_time_is_named_though_few_looks_are_at_the_training() -> None:
    at = Doing("memory", "train.py:22", "<module>", "gc.collect()")
    (finding,) = found(ranks(lambda second: computes(second) if second % 27 in (3, 5, 19) else at))
    assert finding.id == "E07"
    assert finding.title.startswith(("Collecting memory takes 8", "Collecting memory takes 9"))
    assert "mostly at train.py:22 in <module>: `gc.collect()`" in finding.evidence[0].text


def test_a_rank_that_evaluates_while_the_others_wait_is_named() -> None:
    looks = pausing("evaluation", 6, 10), lambda second: Doing("collective")
    (finding,) = found(ranks(*looks))
    assert (finding.id, finding.confidence) == ("E07", "possible")
    assert finding.title == "Evaluations take 60% of the time of rank 0, and the others wait for it"
    assert "rank 1 was in backward or a collective in 100%, and that of rank 0 in 20%" in finding.evidence[-1].text


def test_checkpoints_that_come_seldom_are_seen_over_minutes() -> None:
    (finding,) = found(ranks(pausing("checkpoint", 14, 30)))
    assert (finding.id, finding.confidence) == ("E07", "likely")
    assert finding.title.startswith("Checkpoints take 4")


def test_a_rank_that_does_other_work_is_named_if_the_others_wait_for_it() -> None:
    late = pausing(Doing("metrics", "wer.py:7", "distance", "row[0] = i"), 2, 5)
    (finding,) = found(ranks(late, lambda second: Doing("backward")))
    assert (finding.id, finding.confidence) == ("F05", "possible")
    assert finding.title == "All ranks wait for rank 0: metrics take 40% of its time"
    assert "mostly at wer.py:7 in distance: `row[0] = i`" in finding.evidence[0].text
    assert "rank 1 was in backward or a collective in 100%" in finding.evidence[1].text


def test_work_of_one_rank_in_most_of_the_time_is_no_data_that_all_wait_for() -> None:
    """An error rate in plain Python: each step does it, and no pause lasts longer than by chance."""
    own = Doing("other", "wer.py:41", "beam_search", "b, o = new.get(prefix, nothing)")
    late = lambda second: own if (second * 7) % 10 < 7 else computes(second)  # noqa: E731
    (finding,) = found(ranks(late, lambda second: Doing("backward")))
    assert finding.id == "F05"
    alone = {item.id for item in found(ranks(late))}
    assert "D01" in alone, "if there is only one rank, all of the run waits"


def test_a_rank_that_prepares_its_data_is_named_if_the_others_wait_for_it() -> None:
    late = pausing(Doing("data", "train.py:9", "read_rows"), 2, 5)
    (finding,) = found(ranks(lambda second: Doing("backward"), late))
    assert (finding.id, finding.confidence) == ("F01", "possible")
    assert finding.title == "All ranks wait for rank 1, which prepares or awaits its data"


def test_a_rank_that_calls_the_model_alone_is_named_if_the_others_wait_in_a_collective() -> None:
    at = Doing("forward", "train.py:45", "<module>", "mae = sum(...)")
    (finding,) = found(ranks(lambda second: at if second % 10 > 3 else computes(second), pausing("collective", 6, 10)))
    assert (finding.id, finding.confidence) == ("F05", "possible")
    assert finding.title.startswith("All ranks wait for rank 0: calls of the model take 8")
    assert "rank 1 was in a collective in 60%, and that of rank 0 in 0%" in finding.evidence[1].text


def growing(until: int, every: int) -> Look:
    """A function takes one more second of each round every ``every`` rounds, until it takes ``until``."""
    at = Doing("other", "train.py:31", "macro", "fp = sum(p == c != g for p, g in pairs)")
    return lambda second: at if second % 10 < min(until, second // (10 * every)) else computes(second)


def test_a_function_that_takes_more_and_more_of_the_time_slows_a_run_down() -> None:
    (finding,) = found(ranks(growing(9, 2)))
    assert (finding.id, finding.confidence) == ("E10", "possible")
    assert re.fullmatch(r"The run may slow down: macro took 1\d% of the time, and now takes 5\d%", finding.title)
    assert finding.evidence[1].text == "mostly at train.py:31 in macro: `fp = sum(p == c != g for p, g in pairs)`"


HEALTHY = {
    "writes a short report": ranks(pausing("files", 2, 12)),
    "did other work before it trained": ranks(lambda second: OWN if second < 60 else computes(second)),
    "evaluates a third of the time, and writes it down": ranks(
        lambda second: (
            (Doing("evaluation"), Doing("evaluation"), Doing("files"))[second % 10 - 7] if second % 10 > 6 else computes(second)
        )
    ),
    "paused twice": ranks(lambda second: OWN if second % 60 in range(30, 45) and second < 120 else computes(second)),
    "paused once for long": ranks(lambda second: OWN if 30 < second < 90 or second in (100, 110, 120) else computes(second)),
    "has a larger stage, and the other waits in backward": ranks(
        lambda second: Doing("forward") if second % 10 > 3 else computes(second), pausing("backward", 6, 10)
    ),
    "does a little more": ranks(growing(2, 3)),
    "searches, and trains now and then": ranks(pausing(OWN, 27, 30)),
    "reports a return": ranks(pausing(OWN, 10, 30), metrics={"loss": 1.0, "mean_return": 3.0}),
    "computes its metrics quickly": ranks(in_each_step("metrics", "forward", "backward", "forward", "backward")),
    "does the same on all ranks": ranks(*[in_each_step("data", "forward", "backward", "backward")] * 2),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_resembles_it_is_left_alone(name: str) -> None:
    assert not found(HEALTHY[name])


def test_a_rank_is_not_named_if_no_other_waits_for_it() -> None:
    (finding,) = found(ranks(pausing("metrics", 2, 5), lambda second: Doing("forward")))
    assert finding.id == "E07"


@pytest.mark.parametrize("activity", ["metrics", "data"])
def test_work_that_all_ranks_do_equally_names_none_of_them(activity: Activity) -> None:
    """A rank is late only if the others hardly do the same: here each does it in 40% of its time, and none waits more."""
    work = pausing(Doing(activity, "wer.py:7", "distance"), 2, 5)
    assert {finding.id for finding in found(ranks(work, work))}.isdisjoint({"F01", "F05"})
