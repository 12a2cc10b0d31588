"""Steps that pass mostly in the script's own code (D01, possible), and those that only look so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gputop.snapshot import Snapshot
from gputop.whereabouts.activities import Doing
from tests import samples
from tests.doctor import tracked
from tests.doctor.scenes.base import Scene
from tests.doctor.tracked import one_step_in_three_seconds


def constant(value: float) -> Callable[[int, int], float]:
    return lambda rank, step: value


def prepares_between_steps(
    second: int, utilization: float = 22.0, evaluation_s: float = 0.0, optimizes: bool = True
) -> Snapshot:
    """A process without a loader; of 300 ms of a step, 220 belong to no phase."""
    metrics: tracked.Metrics = {
        "step_s": constant(0.3),
        "loss": tracked.CALM["loss"],
        "phase/forward": constant(0.02),
        "phase/backward": constant(0.05),
        "phase/evaluation": constant(evaluation_s),
    }
    if optimizes:
        metrics |= {"phase/optimizer": constant(0.01)}
    devices = (samples.device(0, utilization_percent=utilization),)
    return tracked.single(second, {"loader": None}, metrics=metrics, devices=devices)


def measures_between_steps(second: int, own_s: float = 0.2, lines: object = None) -> Snapshot:
    """With a loader that is quick: most of a step goes to metrics, and the script is seen at their line."""
    metrics: tracked.Metrics = {
        "step_s": constant(0.1 + own_s),
        "loss": tracked.CALM["loss"],
        "phase/data": constant(0.004),
        "phase/forward": constant(0.03),
        "phase/backward": constant(0.05),
        "phase/optimizer": constant(0.01),
    }
    seen = [[9, "train.py:57", "auc_of_everything"], [2, "train.py:60", "main"]] if lines is None else lines
    facts = {"own_lines": {"samples": 15, "lines": seen}}
    return tracked.single(second, facts, metrics=metrics, devices=(samples.device(0, utilization_percent=22.0),))


def measures_more_and_more(second: int) -> Snapshot:
    """The same, and the metrics take longer from step to step."""
    metrics: tracked.Metrics = {
        "step_s": lambda rank, step: 0.2 + 0.002 * step,
        "loss": tracked.CALM["loss"],
        "phase/data": constant(0.004),
        "phase/forward": constant(0.03),
        "phase/backward": constant(0.05),
        "phase/optimizer": constant(0.01),
    }
    devices = (samples.device(0, utilization_percent=22.0),)
    return tracked.single(second, {"own_lines": {"samples": 15, "lines": []}}, metrics=metrics, devices=devices)


def seen_at(base: Scene, *looks: Doing) -> Scene:
    """The same run, whose main thread is seen to do these one after the other."""

    def scene(second: int) -> Snapshot:
        shot = base(second)
        doing = looks[second % len(looks)]
        return replace(shot, processes=tuple(replace(process, doing=doing) for process in shot.processes))

    return scene


_TRAINS = Doing("backward", "train.py:41", "main"), Doing("forward", "train.py:40", "main")
_WORDS = Doing("metrics", "wer.py:12", "edit_distance")


def a_third_between(second: int) -> Snapshot:
    """Of a step, 36% belong to no phase."""
    return measures_between_steps(second, 0.045, [])


def a_quarter_between(second: int) -> Snapshot:
    """Of a step, 25% belong to no phase."""
    return measures_between_steps(second, 0.025, [])


def few_long_steps(second: int) -> Snapshot:
    """A step takes 3 s."""
    metrics: tracked.Metrics = {
        "step_s": constant(3.0),
        "loss": tracked.CALM["loss"],
        "phase/forward": constant(0.3),
        "phase/backward": constant(0.4),
        "phase/optimizer": constant(0.1),
    }
    devices = (samples.device(0, utilization_percent=22.0),)
    return one_step_in_three_seconds(tracked.single(second, {"loader": None}, metrics=metrics, devices=devices), second)


def calm(second: int) -> Snapshot:
    """Of a step, 5% belong to no phase."""
    return measures_between_steps(second, 0.01, [])


def with_reward(shot: Snapshot) -> Snapshot:
    (run,) = shot.runs
    ranks = tuple(replace(rank, metrics={**rank.metrics, "mean_reward": 3.0}) for rank in run.ranks)
    return replace(shot, runs=(replace(run, ranks=ranks),))


_SEARCHES = replace(_WORDS, function="beam_search")
PAUSES: tuple[tuple[str, Scene], ...] = (
    ("half of the time in a metric, again and again", seen_at(calm, *_TRAINS * 4, *[_SEARCHES] * 8)),
    ("half of the time in a metric, each half a minute", seen_at(calm, *_TRAINS * 8, *[_SEARCHES] * 16)),
)
NO_PAUSES: tuple[tuple[str, Scene], ...] = (
    ("a fifth of the time", seen_at(calm, *_TRAINS * 8, *[_SEARCHES] * 4)),
    ("a quarter of each step is outside all phases", seen_at(a_quarter_between, *_TRAINS * 4, *[_SEARCHES] * 8)),
    ("a third of the time in evaluations", seen_at(calm, *_TRAINS * 4, *[replace(_SEARCHES, activity="evaluation")] * 4)),
    ("an environment is played", seen_at(lambda second: with_reward(calm(second)), *_TRAINS * 4, *[_SEARCHES] * 8)),
    ("in the function that trains", seen_at(calm, *_TRAINS * 4, *[Doing("other", "train.py:44", "main")] * 8)),
)


def plays_an_environment(second: int) -> Snapshot:
    return with_reward(prepares_between_steps(second))


def prints_a_return(second: int) -> Snapshot:
    """The script plays between its steps; its return is only printed."""
    shot = prepares_between_steps(second)
    (run,) = shot.runs
    course = {"name": "return", "values": 9, "lowest": 1.0, "highest": 3.0, "means": [[1, 2.0], [5, 2.5]]}
    ranks = tuple(replace(rank, facts={**rank.facts, "printed": [course]}) for rank in run.ranks)
    return replace(shot, runs=(replace(run, ranks=ranks),))


POSSIBLE: tuple[tuple[str, str, Scene, int], ...] = (
    ("D01", "batches prepared between steps", prepares_between_steps, 60),
    ("D01", "metrics between steps", measures_between_steps, 60),
    ("D01", "a metric that stacks show", seen_at(a_third_between, *_TRAINS, _WORDS), 60),
    ("D01", "few long steps", few_long_steps, 80),
)
LOOK_ALIKES: tuple[tuple[str, str, Scene, int], ...] = (
    ("D01", "the GPU computes meanwhile", lambda second: prepares_between_steps(second, 96.0), 60),
    ("D01", "the weights are updated by hand", lambda second: prepares_between_steps(second, optimizes=False), 60),
    ("D01", "an environment is played", plays_an_environment, 60),
    ("D01", "an environment is played, and its return only printed", prints_a_return, 60),
    ("D01", "a little bookkeeping between steps", lambda second: measures_between_steps(second, 0.03), 60),
    ("D01", "a third of the time, in several functions", a_third_between, 60),
    ("D01", "a third of the time, and stacks show that it trains", seen_at(a_third_between, *_TRAINS), 60),
    ("D01", "a third of the time, and seldom in a metric", seen_at(a_third_between, *_TRAINS * 5, _WORDS), 60),
    (
        "D01",
        "a third of the time, in some function",
        seen_at(a_third_between, *_TRAINS, Doing("other", "a.py:9", "soft_dtw")),
        60,
    ),
    ("D01", "a third of the time, in the loss", seen_at(a_third_between, *_TRAINS, replace(_WORDS, function="dtw_loss")), 60),
    ("D01", "an evaluation in each step", lambda second: prepares_between_steps(second, evaluation_s=0.2), 60),
)
