"""Times that a run logs itself, as many frameworks and scripts do: ``data_time`` next to ``time``, and the duration of training
and evaluation.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.snapshot import Rank, is_training_loss, loss_metric

SHARE = 0.3
"""Share of a step, the same as the severe limit of D01: the time that a script counts as data may overlap with GPU work."""
VALUES_MIN = 20
BEGINS_WITHIN = 2
"""The first report of a run comes after at most this many times the steps from one to the next (our choice)."""
INSIDE_SHARE = 0.95
"""This share of the values must fit into their step; otherwise the names mean something else."""
_DATA = re.compile(
    r"^(?P<prefix>(?:\w+/)*)(?:(?:data|data_?load(?:ing|er)?)_?(?:time|s|sec)|(?:avg_)?reader_cost)$", re.IGNORECASE
)
_RATE = "it_per_sec"
_STEP = ("time", "batch_time", "iter_time", "step_time", "time_per_step", "batch_cost", "avg_batch_cost")


EVALUATION_SECONDS_MIN = 30.0
"""Seconds of both together: a trial run of a script evaluates for longer than it trains."""
_TOOK = r"[_/](?:time|runtime|duration|s|sec|seconds)$"
_EVALUATED = re.compile(rf"(?:^|/)(?:val(?:id(?:ation)?)?|eval(?:uation)?){_TOOK}", re.IGNORECASE)
_TRAINED = re.compile(rf"(?:^|/)train(?:ing)?{_TOOK}", re.IGNORECASE)
_EPOCH = re.compile(rf"(?:^|/)epoch{_TOOK}", re.IGNORECASE)


_EVALUATES = re.compile(r"(?:^|[/_ -])(?:val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)(?:$|[/_ -])", re.IGNORECASE)
_IS_A_TIME = re.compile(r"(?:time|runtime|duration|sec|seconds|per_second|_s)$", re.IGNORECASE)
ROUNDS_MAX, ROUNDS_MIN, ROUNDS_MIN_S = 12, 3, 20.0
LOSSES_MIN = 3
"""At least this many training losses must be printed in each round: else the pause may contain most of the training (our
choice)."""
PAUSES_SHARE = 0.5
READ_S = 1.0
"""Printed values are as old as their reading: they are read once a second."""


STALLS_MIN, STALL_FACTOR, STALL_SHARE, STALL_VARIATION = 3, 5.0, 0.1, 0.2
"""At least this many printed step times are at least this many times the median, take this share of all the time, and come at
distances that vary by less than this (our choice)."""


class _Times(NamedTuple):
    data: str
    step: str


def waits_by_own_times(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 by the times that the run logs, for data and for the whole step."""
    run = logged.run_id(group)
    for rank in logged.ranks_of(group):
        names = _names(rank)
        if names is None or evidence.series(run, rank.rank, "phase/data"):
            continue
        data, whole = (evidence.series(run, rank.rank, name) for name in names)
        steps = dict(zip(whole.steps, whole.values, strict=True))
        pairs = [(step, value, steps[step]) for step, value in zip(data.steps, data.values, strict=True) if step in steps]
        fitting = [(step, part, whole) for step, part, whole in pairs if 0 <= part <= whole > 0]
        if len(fitting) < VALUES_MIN or len(fitting) < INSIDE_SHARE * len(pairs):
            continue
        epochs = evidence.series(run, rank.rank, "epoch")
        begin = _beginnings(epochs.steps, epochs.values)
        first, second = fitting[0][0], fitting[1][0]
        if not first > BEGINS_WITHIN * (second - first) > 0:  # else the log begins in the middle of a run
            begin.add(first)
        later = [item for item in fitting if item[0] not in begin]
        share = min(_share(fitting), _share(later) if later else 1.0)
        if share < SHARE:
            continue
        where = f"{logged.source(group)}: {names.data}, {names.step}"
        text = f"by its own numbers, data takes {share:.0%} of the step time ({len(fitting)} values)"
        finding = tracked.about(
            group,
            "D01",
            "warning",
            "likely",
            f"The run waits for data: {share:.0%} of each step, by its own numbers",
            [Fact(text, round(share, 3), where)],
            "Batches arrive more slowly than the GPU uses them: too few loader workers, slow decoding, or a slow disk.",
            "DataLoader(..., num_workers=8, pin_memory=True, persistent_workers=True, prefetch_factor=4)  # or the framework's "
            "option for it\ngputop run -- ...  # shows whether workers, disk or cores are the reason",
            f"{names.data} counts work that overlaps with the GPU's, not a wait.",
        )
        return Suspicion(finding, 3.0)
    return None


def _share(times: Sequence[tuple[int, float, float]]) -> float:
    return sum(part for _, part, _ in times) / sum(whole for _, _, whole in times)


def _beginnings(steps: Sequence[int], epochs: Sequence[float]) -> set[int]:
    """Return the steps whose values are the first ones of an epoch: its workers start, which is no lasting wait."""
    points = list(zip(steps, epochs, strict=True))
    return {
        step for (_, before), (step, after) in itertools.pairwise(points) if math.isfinite(after) and after // 1 > before // 1
    }


def stalls_by_own_times(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 by the times of steps that an untracked run prints: at regular distances, one is several times the median."""
    if not logged.is_printed(group):
        return None
    run = logged.run_id(group)
    for rank in logged.ranks_of(group):
        name, found = _stalls(evidence, run, rank)
        if found is None or len(found.steps) < STALLS_MIN or found.excess_share < STALL_SHARE:
            continue
        if not windows.regular(found.steps, STALL_VARIATION):
            continue
        where = f"{logged.source(group)}: {name}"
        finding = tracked.about(
            group,
            "E07",
            "warning",
            "likely" if found.excess_share >= SHARE else "possible",
            f"The loop stalls every {units.count(int(found.period))} steps: {found.excess_share:.0%} of the printed times",
            [
                Fact(
                    f"{words.count(len(found.steps), 'step')} took {units.metric(found.mean_s)} s, where the median is "
                    f"{units.metric(found.median_s)} s",
                    found.mean_s,
                    where,
                ),
            ],
            "Something runs then that blocks the loop: a checkpoint, an evaluation, a plot, a collection of garbage, or "
            "work of another rank.",
            "gputop run -- ...  # shows what it is\n# do it less often, or in parallel with the training",
            "The length and frequency of the pauses are intentional.",
        )
        return Suspicion(finding, 3.0)
    return None


def _stalls(evidence: Evidence, run: str | None, rank: Rank) -> tuple[str, windows.Stalls | None]:
    """Return the metric that holds the seconds of each step, or their rate, and the steps that stall by it."""
    name = next((each for each in (*_STEP, _RATE) if each in rank.metrics), "")
    series = evidence.series(run, rank.rank, name)
    if name != _RATE:
        return name, windows.stalls(series, STALL_FACTOR)
    loss = loss_metric(rank.metrics)
    steps = evidence.series(run, rank.rank, loss).steps if loss is not None else ()
    if len(steps) != len(series) or any(after - before != 1 for before, after in itertools.pairwise(steps)):
        return name, None  # not each step prints it
    return name, windows.stalls(windows.seconds_of(series), STALL_FACTOR)


def _names(rank: Rank) -> _Times | None:
    """Return the names of the two times, which share the part before the last "/"."""
    for name in sorted(rank.metrics):
        found = _DATA.match(name)
        step = next((found["prefix"] + end for end in _STEP if found["prefix"] + end in rank.metrics), None) if found else None
        if step is not None:
            return _Times(name, step)
    return None


def evaluates_longer(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 by the times that the run logs: its evaluations take longer than its training."""
    for rank in logged.ranks_of(group):
        name, evaluated = _seconds(evidence, group, rank, _EVALUATED)
        if len(evaluated) < 2 or sum(evaluated) < EVALUATION_SECONDS_MIN:
            continue
        of, trained = _seconds(evidence, group, rank, _TRAINED)
        # A single number for the whole training, as transformers' Trainer logs it, includes the evaluations.
        rest = sum(trained) - sum(evaluated) if len(trained) == 1 else sum(trained)
        if not trained:
            of, trained = _seconds(evidence, group, rank, _EPOCH)
            rest = sum(trained)  # The time of an epoch may include its evaluation: then training takes less than this.
        number = min(len(evaluated), len(trained))
        if not number or (len(trained) > 1 and abs(len(trained) - len(evaluated)) > 1) or sum(evaluated) < max(rest, 0.0):
            continue
        share = sum(evaluated) / (sum(evaluated) + max(rest, 0.0))
        where = f"{logged.source(group)}: {name}, {of}"
        text = f"{len(evaluated)} evaluations took {sum(evaluated):.0f} s, training {max(rest, 0.0):.0f} s"
        finding = tracked.about(
            group,
            "E07",
            "warning",
            "likely",
            f"Evaluation takes longer than training: {share:.0%} of the time",
            [Fact(text, round(share, 3), where)],
            "The run evaluates too often, on too much data, or more slowly than it trains: with a small batch, without "
            "torch.no_grad() and autocast, or on one rank while the others wait.",
            "# evaluate less often, on less data, and a part of it on every rank\nwith torch.inference_mode(): ...  # with "
            "batches twice as large as in training",
            "Such a thorough evaluation is intentional.",
        )
        return Suspicion(finding, 3.0)
    return None


def _seconds(evidence: Evidence, group: RankGroup, rank: Rank, names: re.Pattern[str]) -> tuple[str, tuple[float, ...]]:
    """Return the first metric with such a name, and its values."""
    name = next((name for name in sorted(rank.metrics) if names.search(name)), "")
    values = evidence.series(logged.run_id(group), rank.rank, name).values if name else ()
    return name, tuple(value for value in values if 0 < value < math.inf)


def pauses_before_evaluations(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 for an untracked run by when its values come: pauses before those of evaluations, longer than the training."""
    if group.run is not None:
        return None
    run = logged.run_id(group)
    for rank in logged.ranks_of(group):
        loss = loss_metric(rank.metrics)
        name = next((name for name in sorted(rank.metrics) if _EVALUATES.search(name) and not _IS_A_TIME.search(name)), None)
        if loss is None or name is None or not is_training_loss(loss):
            continue
        losses, results = (evidence.series(run, rank.rank, metric) for metric in (loss, name))
        rounds = _rounds(
            list(zip(losses.steps, losses.times, strict=True)),
            list(zip(results.steps, results.times, strict=True))[-ROUNDS_MAX - 1 :],
        )
        whole_s, paused_s = sum(item[0] for item in rounds), sum(item[1] for item in rounds)
        if len(rounds) < ROUNDS_MIN or whole_s < ROUNDS_MIN_S or paused_s < PAUSES_SHARE * whole_s:
            continue
        pauses = f"{units.duration(paused_s)} passed between the last {loss} and {name}"
        text = f"in {len(rounds)} rounds of {units.duration(whole_s)} in all, {pauses}"
        finding = tracked.about(
            group,
            "E07",
            "warning",
            "possible",
            f"Evaluation may take longer than training: {paused_s / whole_s:.0%} of the time",
            [Fact(text, round(paused_s / whole_s, 3), f"{logged.source(group)}: {loss}, {name}")],
            "Between the last training loss and the result of an evaluation, nothing is printed for longer than training "
            "takes. The run evaluates too often, on too much data, with a small batch or without torch.no_grad(); or it saves "
            "then.",
            "# evaluate less often, on less data, and a part of it on every rank\nwith torch.inference_mode(): ...  # with "
            "batches twice as large as in training",
            "Such a thorough evaluation is intentional, or most training steps print nothing.",
        )
        return Suspicion(finding, 3.0)
    return None


def _rounds(losses: list[tuple[int, float]], ends: list[tuple[int, float]]) -> list[tuple[float, float]]:
    """Return the seconds of each round, from one evaluation's value to the next, and those of the pause at its end.

    Both lists hold steps and times. Steps tell which losses belong to a round: values that are read together have one time.
    The last steps before the pause may have printed nothing, so one interval between losses is not part of it.
    """
    found = []
    first = losses[0][0] if losses else 0  # of the losses that are kept
    for (step_before, before), (step, end) in itertools.pairwise(ends):
        if step_before < first:
            continue
        times = sorted(at for of, at in losses if step_before < of <= step)
        if len(times) < LOSSES_MIN:
            return []  # the pause may hold most of the training
        usual_s = max(READ_S, (times[-1] - times[0]) / (len(times) - 1))
        found.append((end - before, max(0.0, end - times[-1] - usual_s)))
    return found
