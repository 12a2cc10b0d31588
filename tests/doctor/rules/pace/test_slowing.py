"""A run that slows down: how much, since when, and where it is known from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.doctor.evidence.paces import Paces
from gputop.doctor.printed import judge
from gputop.doctor.roots import sort_key
from gputop.doctor.rules.pace import slowing
from gputop.jobs.output.printed_log import printed_run
from gputop.levels import Stretch
from gputop.snapshot import Points, Snapshot
from gputop.whereabouts.records import Activity, Doing
from tests.doctor.scenes import own_work
from tests.doctor.scenes.base import Scene, ids, only_shown, play
from tests.doctor.scenes.near import slowing as scenes
from tests.doctor.scenes.pace import interrupted
from tests.samples import EPOCH


def told(scene, seconds=scenes.SECONDS):
    return next((item for item in play(scene, seconds)[-1] if item.id == "E10"), None)


def test_it_says_how_much_slower_and_since_when() -> None:
    finding = told(scenes.slows_down)
    assert finding.title.startswith("The run slows down: a step takes 1.9 times")
    assert finding.evidence[0].text.startswith("25")
    assert finding.evidence[0].source == "journal: step_s"
    assert finding.fix.startswith("gputop where run-1")


@pytest.mark.parametrize(("per_s", "confidence"), [(120, "possible"), (2, "likely")])
def test_others_that_take_its_cores_may_be_why_a_run_slows_down(per_s: int, confidence: str) -> None:
    def crowded(second: int) -> Snapshot:
        shot = scenes.slows_down(second)
        return interrupted(shot, second, per_s, shot.processes[0].rank)

    finding = told(crowded)
    assert finding.confidence == confidence
    assert any("to let others run" in fact.text for fact in finding.evidence) == (confidence == "possible")


def test_work_between_the_steps_that_takes_longer_and_longer_is_possible() -> None:
    """Rollouts, evaluations, drawing: no step contains them."""
    finding = told(scenes.rollouts_grow)
    assert (finding.confidence, finding.evidence[0].source) == ("possible", "journal: the times of the steps")
    assert [fact.text for fact in finding.evidence[:3]] == [
        "118 steps took 6s from step 19",
        "118 steps took 26s from step 847",
        "of that, the steps themselves took 2s",
    ]


@pytest.mark.parametrize(
    "scene", [scenes.rollouts_stay, scenes.rollouts_are_slower_since_then, scenes.hardly_any_pauses, scenes.more_to_roll_out]
)
def test_pauses_that_stay_as_long_or_are_longer_since_a_change_say_nothing(scene: Scene) -> None:
    assert told(scene) is None


def test_pauses_of_half_a_minute_say_nothing_yet() -> None:
    assert told(scenes.rollouts_grow, 48) is None


def test_what_grows_stands_before_what_is_regular() -> None:
    grows = told(scenes.rollouts_grow)
    assert sort_key(grows) < sort_key(replace(grows, id="E07")), "pauses that grow are also regular"


def test_own_work_that_takes_longer_and_longer_is_why_the_steps_pass_there() -> None:
    """It is no data that each step waits for (D01), which takes equally long in each."""
    said = ids(play(own_work.measures_more_and_more, scenes.SECONDS)[-1])
    assert "E10" in said
    assert "D01" not in said
    assert "D01" in ids(play(own_work.measures_between_steps, scenes.SECONDS)[-1])


def test_the_printed_throughput_of_an_untracked_run_shows_it_too() -> None:
    finding = told(only_shown(scenes.rate_falls, {"source": "log"}))
    assert finding.evidence[0].source == "its output: throughput"
    assert finding.confidence == "possible", "nothing shows how much its steps do"
    assert finding.evidence[0].text.startswith("throughput 2")
    assert "E10" not in ids(play(only_shown(scenes.rate_stays, {"source": "log"}), scenes.SECONDS)[-1])


def printed(tmp_path: Path, rates: list[float]) -> list[str]:
    """What is said of a log that prints a throughput now and then."""
    log = tmp_path / "train.log"
    lines = (f"step {200 * n:6} | loss {3 - 0.02 * n:.3f} | {rate:.0f} tok/s\n" for n, rate in enumerate(rates, 1))
    log.write_text("".join(lines))
    found = printed_run(log)
    assert found is not None
    return ids(judge(*found))


def test_the_times_of_the_lines_are_the_pace_if_none_is_printed(tmp_path: Path) -> None:
    def logged(growth: float, more: str = "") -> list[str]:
        at, lines = 0.0, []
        for step in range(0, 20_000, 50):
            at += 5.0 * (1 + growth * step / 20_000)
            clock = f"{int(at) // 3600:02d}:{int(at) // 60 % 60:02d}:{int(at) % 60:02d}"
            lines.append(f"2024-06-11 {clock} INFO step {step} loss {2 / (1 + step / 1e4):.4f}{more}")
        log = tmp_path / "train.log"
        log.write_text("\n".join(lines) + "\n")
        found = printed_run(log)
        assert found is not None
        return ids(judge(*found))

    assert logged(2.5) == ["E10"]
    assert logged(0.2) == []
    assert logged(2.5, " 10.0 it/s") == [], "what the run prints counts"


def test_few_printed_values_show_it_if_every_part_is_slower(tmp_path: Path) -> None:
    falls = [40e3 / (1 + n / 30) for n in range(60)]
    assert printed(tmp_path, falls) == ["E10"]
    assert printed(tmp_path, falls[:30]) == [], "too few"
    assert printed(tmp_path, [40e3 / (1 + n / 200) for n in range(60)]) == [], "too little"
    assert printed(tmp_path, [*falls[:30], *falls[:30]]) == [], "not to the end"
    assert printed(tmp_path, [5e3, 2e4, *[4e4 + 500 * (n % 3) for n in range(58)]]) == [], "a warm-up"
    assert printed(tmp_path, [40e3 - 25e3 * (n >= 30) + 50 * (n % 7) for n in range(60)]) == [], "one change of level"


@pytest.mark.parametrize(
    ("growth", "out_of_order", "enough_s"),
    [(1.4, False, 60.0), (1.8, False, 45.0), (1.8, True, 60.0), (4.0, False, 30.0), (4.0, True, 60.0)],
)
def test_the_clearer_it_slows_down_the_less_time_is_enough(growth: float, out_of_order: bool, enough_s: float) -> None:
    def course(span_s: float) -> object:
        means = [1 + (growth - 1) * number / 31 for number in range(32)]
        if out_of_order:
            means[8:16] = reversed(means[8:16])
        each_s = span_s / sum(means[1:])
        return slowing._parts("step_s", [Stretch(50 * number, mean * each_s / 50, 50) for number, mean in enumerate(means)])

    assert course(enough_s - 3) is None
    assert course(enough_s + 3) is not None


def test_a_throughput_that_overflows_is_ignored() -> None:
    """An untracked run's output may say anything; the rules are asked with such values at random elsewhere, too."""
    stretches = [Stretch(10 * number, 1e308, 10_000) for number in range(32)]
    assert slowing._parts("tokens_per_s", stretches) is None


def test_steps_that_go_back_do_not_stop_the_rule() -> None:
    again = [Stretch(step, 1.0, 50) for step in (0, *range(4000, 5000, 100), *range(200, 5000, 100))]
    course = slowing._parts("samples_per_s", again)
    assert course is None or len(course.seconds) == slowing.PARTS


def only_losses(step_s: Callable[[float], float]) -> Scene:
    """An untracked run of which only losses are known, one for every tenth step; ``step_s`` by seconds since it began."""
    done, at, marks = 0, 0.0, []
    while at < scenes.SECONDS:
        at += step_s(at)
        done += 1
        if done % 10 == 0:
            marks.append((done, at))
    base = only_shown(scenes.run_at(lambda rank, step: 0.2))

    def shown(second: int) -> Snapshot:
        snapshot = base(second)
        new = [(step, at) for step, at in marks if second - 1 < at <= second]
        steps, times = [step for step, _ in new], [EPOCH + second for _ in new]
        points = (Points("run-1", 0, "loss", tuple(steps), tuple(times), tuple(1 / step for step in steps)),) if new else ()
        runs = tuple(
            replace(run, ranks=tuple(replace(rank, metrics={"loss": 0.5}) for rank in run.ranks)) for run in snapshot.runs
        )
        return replace(snapshot, points=points, runs=runs)

    return shown


def test_the_times_of_an_untracked_runs_losses_show_it_too() -> None:
    finding = told(only_losses(lambda at: 0.02 + at / 1000))
    assert finding.evidence[0].source == "its files: the times of its values"
    assert "steps took" in finding.evidence[0].text
    assert finding.evidence[1].value > 1.5 * finding.evidence[0].value


@pytest.mark.parametrize(
    "pace",
    [
        lambda at: 0.05,
        lambda at: 0.05 + 0.05 * (at > 60),
        lambda at: 0.05 + 0.04 * (30 < at < 80),
        lambda at: 0.05 + 0.3 * 0.9**at,
        lambda at: 0.05 * (1 + at / 400),
        lambda at: (0.05 + at / 1200) * (0.6 if 45 < at < 62 else 1),
    ],
    ids=[
        "even",
        "one change of level",
        "a slow stretch that passes",
        "a slow beginning",
        "little growth",
        "a part out of order",
    ],
)
def test_the_times_of_losses_show_no_other_change_of_pace(pace: Callable[[float], float]) -> None:
    assert told(only_losses(pace)) is None


def test_times_of_losses_that_were_read_at_once_say_nothing() -> None:
    paces = Paces()
    paces.extend(range(1, 1001), [1e9] * 1000)
    assert paces.marks == [(1000, 1e9)]
    paces.extend([1010, 1020], [1e9 + 1, 1e9 + 1])
    assert paces.marks == [(1000, 1e9), (1020, 1e9 + 1)]
    paces.extend([10], [1e9 + 2])
    assert paces.marks == [(10, 1e9 + 2)], "another count of steps"


def test_the_marks_of_a_long_course_stay_few() -> None:
    paces = Paces()
    for second in range(10_000):
        paces.extend([10 * second], [1e9 + second])
    assert len(paces.marks) <= 129
    seconds, steps = paces.seconds_per_step(8)
    assert seconds == pytest.approx([0.1] * 8)
    assert steps == tuple(sorted(set(steps)))


def test_a_part_out_of_order_does_not_matter_if_steps_get_much_slower() -> None:
    assert told(only_losses(lambda at: (0.02 + at / 300) * (0.8 if 52 < at < 62 else 1))) is not None


def test_few_losses_make_a_much_slower_run_possible() -> None:
    finding = told(only_losses(lambda at: 0.15 + at / 35))
    assert finding.confidence == "possible"
    assert told(only_losses(lambda at: 0.5 + at / 200)) is None, "not much slower"


def seen_in(activity: Activity, function: str) -> Scene:
    base = only_losses(lambda at: 0.02 + at / 1000)
    looks = [
        Doing(activity, "train.py:41", function),
        Doing(activity, "train.py:41", function),
        Doing("backward", "train.py:60", "fit"),
    ]

    def scene(second: int) -> Snapshot:
        shot = base(second)
        return replace(shot, processes=tuple(replace(item, doing=looks[second % 3]) for item in shot.processes))

    return scene


@pytest.mark.parametrize(
    ("activity", "function", "confidence"),
    [
        ("other", "nearest", "likely"),
        ("metrics", "auroc", "likely"),
        ("forward", "forward", "possible"),
        ("other", "contrastive_loss", "possible"),
        ("other", "fit", "possible"),
    ],
)
def test_what_grows_beside_the_computation_slows_an_untracked_run_down(
    activity: Activity, function: str, confidence: str
) -> None:
    finding = told(seen_in(activity, function))
    assert finding.confidence == confidence, "thawed layers and longer sequences grow where the model computes"
    named = [fact.text for fact in finding.evidence if "train.py:41" in fact.text]
    assert bool(named) == (confidence == "likely")
