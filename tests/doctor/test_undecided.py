"""How long the doctor watches: until nothing is undecided; and how it reports what needs more time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import SETTLED_S, Doctor
from gputop.doctor.findings.finding import findings_json
from gputop.doctor.report import text_report
from gputop.doctor.rules import RULES
from gputop.doctor.undecided import STEPS_KNOWN_S
from gputop.doctor.watch import IDLE_S, LONGEST_S, Outcome, changed, watch
from gputop.snapshot import Snapshot
from tests.doctor.rules.test_covered import ROOMS
from tests.doctor.scenes import efficiency, outside, placement
from tests.doctor.scenes.base import Scene, gpus, ids, scene, single, use
from tests.doctor.scenes.near import starts as near_starts
from tests.doctor.tracked import ddp
from tests.samples import EPOCH


class Stream:
    """A scene, one snapshot a second, that counts how far it was read."""

    def __init__(self, of: Scene, longest_s: int = int(LONGEST_S)) -> None:
        self.scene, self.longest_s, self.read = of, longest_s, 0

    def __iter__(self) -> Iterator[Snapshot]:
        for second in range(self.longest_s):
            self.read = second
            yield self.scene(second)


def watched(of: Scene, **options: bool) -> tuple[Outcome, int]:
    stream = Stream(of)
    return watch(Doctor(), stream, **options), stream.read


def of_rule(table: tuple, rule: str) -> Scene:
    return next(row[2] for row in table if row[0] == rule)


def healthy(second: int) -> Snapshot:
    return ddp(second)


def idle(second: int) -> Snapshot:
    return scene(second, gpus([], 4))


def young(second: int) -> Snapshot:
    """A single process beside free GPUs that began when the watch did: it warms up for 30 s."""
    process = replace(single(4000, use(0), second=second), started_at=EPOCH)
    return replace(scene(second, gpus([0]), (process,)), time=EPOCH + second)


def with_past(second: int) -> Snapshot:
    """The healthy run; the first snapshot has the steps of the half minute before, as a journal does."""
    if second:
        return healthy(30 + second)
    points = [item for past in range(31) for item in healthy(past).points]
    return replace(healthy(30), points=tuple(points))


def test_a_healthy_run_is_settled_after_eight_seconds_or_ten_if_few_steps_are_known() -> None:
    """With the start of the command, eight seconds of readings make ten."""
    for run, seconds in ((with_past, SETTLED_S), (healthy, STEPS_KNOWN_S)):
        outcome, read = watched(run)
        assert (ids(outcome.findings), outcome.undecided, read) == ([], (), seconds)
    outcome = watch(Doctor(), (healthy(second) for second in range(9)))
    assert [(item.rule, item.title) for item in outcome.undecided] == [(None, "few steps of resnet18-ddp are known")]


def test_whatever_is_healthy_is_settled_after_ten_seconds() -> None:
    rows = {row[-3]: row[-2] for room in ROOMS for row in getattr(room, "HEALTHY", ())}
    assert len(rows) > 80
    later = [name for name, of in rows.items() if watched(of)[1] > STEPS_KNOWN_S]
    # Three compute nothing, as in a hang. The one process of the fourth begins with the watch, and warms up for half a minute.
    # Most of each step of the last belongs to no phase, which is possibly a fault.
    assert later == [
        "rank 0 downloads the data",
        "an inference server of four ranks",
        "a server since yesterday",
        "memory of processes that a container hides",
        "cut batches in a step of something else",
    ]


def test_a_machine_without_training_is_settled_sooner() -> None:
    assert watched(idle)[1] == IDLE_S


def test_the_watch_outlasts_what_needs_longer() -> None:
    """Too little work in a step rests on 30 s of readings: at 15 s it was silent and the exit code 0."""
    fault = of_rule(efficiency.FAULTS, "E02")
    doctor = Doctor()
    for second in range(16):
        found = doctor.observe(fault(second))
    assert ids(found) == []
    assert [item.rule for item in doctor.undecided] == ["E02"]
    assert 10 <= doctor.undecided[0].needs_s <= 20
    outcome, read = watched(fault)
    assert ids(outcome.findings)[:1] == ["E02"]
    assert 30 <= read <= 40


def test_a_run_that_warms_up_is_undecided_and_then_reported() -> None:
    stream = Stream(young, 12)
    outcome = watch(Doctor(), stream)
    assert (outcome.findings, [item.rule for item in outcome.undecided]) == ((), [None])
    assert outcome.undecided[0].title == "process 4000 is warming up"
    outcome, read = watched(young)
    assert ids(outcome.findings) == ["A01"]
    assert 30 <= read <= 40


def test_every_rule_has_its_time_after_the_first_certain_finding() -> None:
    """The watch ended at the first certain finding: a second cause went untold."""
    certain = of_rule(placement.FAULTS, "A05")
    outcome, read = watched(certain)
    assert read >= SETTLED_S
    assert "A05" in ids(outcome.findings)


def test_a_recording_is_read_on_until_something_is_certain() -> None:
    assert watched(healthy, whole=True)[1] == LONGEST_S - 1


def test_no_rule_needs_longer_than_the_longest_watch() -> None:
    longer = {rule.id for rule in RULES if rule.window_s > LONGEST_S}
    assert longer == {"H06"}  # growth that fills a GPU in hours: a screen or --watch sees it, a question does not wait for it


def test_a_root_that_is_not_reported_yet_hides_nothing() -> None:
    fault = of_rule(placement.FAULTS, "A19")
    doctor = Doctor()
    seen = [ids(doctor.observe(fault(second))) for second in range(30)]
    assert seen[-1] == ["A19"]
    assert ["A07"] in seen, "its symptom stood before it"


@pytest.mark.parametrize("found", [True, False])
def test_the_report_distinguishes_undecided_from_nothing_found(found: bool) -> None:
    outcome = watch(Doctor(), Stream(young, 12))
    report = text_report((), (), outcome.snapshot, (), outcome.undecided if found else ())
    assert ("Undecided:" in report) is found
    assert ("process 4000 is warming up (needs 19 s more at most)" in report) is found
    assert ("No problem found" in report) is not found
    assert findings_json((), (), (), outcome.undecided)["undecided"] == [
        {"rule": None, "title": "process 4000 is warming up", "needs_s": pytest.approx(19.0), "run": None, "pids": [4000]}
    ]


def test_the_report_says_how_to_watch_for_long_enough() -> None:
    """Some rules hold for minutes, and the watch ends after two: only the seconds told that it was too short."""
    outcome = watch(Doctor(), Stream(young, 12))
    said = " ".join(text_report((), (), outcome.snapshot, (), outcome.undecided, None, 11.0).split())
    assert "(needs 19 s more at most) Not decided within 11 s: watch longer with --for 40s. No other" in said
    never = tuple(replace(item, needs_s=None) for item in outcome.undecided)
    assert "--for" not in text_report((), (), outcome.snapshot, (), never, None, 11.0), "only a first step decides it"


def test_the_json_has_a_word_for_each_of_the_four() -> None:
    certain, _ = watched(of_rule(placement.FAULTS, "A05"))
    undecided = watch(Doctor(), Stream(young, 12)).undecided
    assert findings_json(certain.findings, (), (), undecided)["verdict"] == "problem"
    assert findings_json((), (), (), undecided)["verdict"] == "undecided"
    assert findings_json(())["verdict"] == "nothing found"
    note = replace(certain.findings[0], severity="info")
    assert findings_json((note,))["verdict"] == "nothing found"
    perhaps = replace(certain.findings[0], confidence="possible")
    assert findings_json((perhaps, note))["verdict"] == "possible"
    assert findings_json((perhaps,), (), (), undecided)["verdict"] == "undecided"
    assert findings_json((perhaps, replace(perhaps, confidence="likely")))["verdict"] == "problem"


def test_a_watch_reports_what_is_decided_now() -> None:
    """Without a finding before and after, "undecided" stood on the terminal for good."""
    before = watch(Doctor(), Stream(young, 12))
    waited = replace(before, undecided=tuple(replace(item, needs_s=item.needs_s - 1) for item in before.undecided))
    assert not changed(before, waited)
    assert changed(waited, replace(waited, undecided=()))


def test_a_finding_that_was_printed_before_is_not_printed_twice() -> None:
    outcome, _ = watched(of_rule(placement.FAULTS, "A05"))
    told = next(item for item in outcome.findings if item.id == "A05")
    report = text_report(outcome.findings, (), outcome.snapshot, outcome.suppressed, (), told)
    assert told.cause not in report
    assert "A05 (above): it no longer applies." in text_report((), (), outcome.snapshot, (), (), told)


def test_a_launch_without_a_step_is_undecided_and_holds_up_no_watch() -> None:
    """Nothing wrong was found in a launch that hung before its first step."""
    outcome, read = watched(near_starts.prepares)
    assert (outcome.findings, [item.needs_s for item in outcome.undecided]) == ((), [None])
    assert 29 <= read <= 32, "as long as G01 needs, and no longer"
    title = (
        "train.py has made no step yet: ranks 0, 1 wait in all_reduce #3 for rank 2, which has begun 2 collectives of 3; "
        "watching for ranks that wait for one another"
    )
    assert outcome.undecided[0].title == title
    report = " ".join(text_report((), (), outcome.snapshot, (), outcome.undecided).split())
    assert f"Undecided: {title} No other problem found" in report
    assert findings_json((), (), (), outcome.undecided)["verdict"] == "undecided"
    assert [item.needs_s for item in watch(Doctor(), Stream(near_starts.prepares, 12)).undecided] == [pytest.approx(19.0)]


def test_the_rank_that_holds_up_the_first_step_is_named_and_decides_it() -> None:
    outcome, read = watched(near_starts.starts)
    assert [(item.id, item.severity, item.confidence) for item in outcome.findings] == [("G01", "error", "likely")]
    assert outcome.findings[0].title == (
        "No first step comes: ranks 0, 1 wait in all_reduce #3 for rank 2, which has begun 2 collectives of 3"
    )
    assert outcome.findings[0].pids == (4002,)
    assert any("rank 2: train.py:12 in load" in fact.text for fact in outcome.findings[0].evidence)
    assert (outcome.undecided, read <= 30) == ((), True)
    assert watched(near_starts.in_different_collectives)[0].findings[0].confidence == "certain"


def test_a_run_that_gputop_does_not_track_is_not_undecided_for_that() -> None:
    """Nothing of it would tell a first step."""
    outcome, _ = watched(lambda second: near_starts.starts(second, starting=False, known=()))
    assert [item.title for item in outcome.undecided] == []


def stopped_after_ten_seconds(second: int) -> Snapshot:
    """A run whose steps stop. Nobody reports where it stands: its Python code does not run."""
    shot = ddp(min(second, 10))
    if second <= 10:
        return shot
    later_s = float(second - 10)
    return replace(shot, time=shot.time + later_s, monotonic_s=shot.monotonic_s + later_s, points=())


def test_a_run_whose_steps_have_just_stopped_is_undecided() -> None:
    """Seen on an H200: a rank had slept for 17 s, and the doctor left with nothing undecided."""
    doctor = Doctor()
    for second in range(10 + 14):
        findings = doctor.observe(stopped_after_ten_seconds(second))
    assert "G01" not in ids(findings)
    assert [(case.rule, case.title) for case in doctor.undecided] == [("G01", "The training may hang: its steps have stopped")]
    for second in range(24, 60):
        findings = doctor.observe(stopped_after_ten_seconds(second))
    (finding,) = [found for found in findings if found.id == "G01"]
    assert (finding.confidence, finding.evidence[0].text) == ("possible", "no step for 49s, where one takes 300 ms")


def test_a_pause_of_a_few_seconds_does_not_prolong_the_watch() -> None:
    doctor = Doctor()
    for second in range(15):
        doctor.observe(stopped_after_ten_seconds(second))
    assert not doctor.undecided


@pytest.mark.parametrize("every", [1, 10])
def test_an_untracked_run_whose_steps_end_is_not_suspected_of_a_hang(every: int) -> None:
    """Its ranks sleep nearly all the time, as with a small model that waits for data: its output shows the steps."""
    doctor = Doctor()
    waits = outside.taking_turns("sleep", "sleep", "lock")
    for second in range(60):
        findings = doctor.observe(outside.outside(waits, waits, every=every, percent=lambda number, second: 1.0)(second))
        if second > 2 * every:
            assert "G01" not in [*ids(findings), *(item.rule for item in doctor.undecided)], second


def from_when(of: Scene, first: int) -> Scene:
    """The same, but nobody looked before this second."""
    return lambda second: of(second + first)


def test_a_hang_that_is_older_than_the_watch_is_still_told() -> None:
    """Whether a process uses no disk is known after fifteen seconds, and the doctor used to leave after eight."""
    hangs, took_s = watched(from_when(outside.hangs, 70))
    assert [item.id for item in hangs.findings] == ["G01"]
    assert took_s > SETTLED_S
    unread = outside.outside(outside.always("output"), printed=False, percent=lambda number, second: 0.0)
    assert [(item.id, item.confidence) for item in watched(unread)[0].findings] == [("G01", "likely")]


def test_processes_that_rest_are_undecided_at_first_and_sessions_are_not() -> None:
    rests = outside.outside(outside.always("events"), printed=False, percent=lambda number, second: 0.0)
    doctor = Doctor()
    for second in range(int(SETTLED_S) + 2):
        doctor.observe(rests(second))
    (waits,) = doctor.undecided
    assert waits.title == "process 4000 of train.py computes nothing; watching whether that lasts"
    assert watched(rests)[1] == 16

    def typed(second: int) -> Snapshot:
        shot = rests(second)
        return replace(shot, processes=tuple(replace(item, command=("python", "-i")) for item in shot.processes))

    assert watched(typed)[1] == SETTLED_S
    assert watched(outside.computes)[1] == SETTLED_S
