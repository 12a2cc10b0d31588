"""Where a run's time goes between its lines, by the times at which they were written. Pure.

Follows the lines that count steps or batches. A time between two of them that is longer than usual is a pause, and belongs to
what is printed there: the result of an evaluation, a checkpoint, the beginning of an epoch.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.texts import CHECKPOINTS, EVALUATION, FIRST_BATCH, Text

Kind = Literal["evaluation", "checkpoint", "first batch", "between epochs", "steps"]
"""What a pause belongs to; "steps": nothing but the distance between pauses says what."""

PAUSES_MIN, LONGER, LEAST_S = 3, 4.0, 3.0
"""At least this many pauses make a pattern. Each takes this many times as long as its steps usually do, and at least this many
seconds longer (our choice)."""
SHARE, SURE_SHARE = 0.15, 0.3
"""The least share of the time that they take, and the least for a likely finding (our choice)."""
EVALUATION_SHARE = 0.5
"""Evaluations may take as long as the training: how thorough they are is for the user to say (our choice)."""
VARIATION = 0.2
"""Pauses that nothing explains are at regular distances, which vary by less (our choice)."""
GAPS_MIN = 8
"""At least this many gaps without a pause show what is usual (our choice)."""
KEPT = 20_000
"""At most this many lines are read: more would say the same."""
_CHARACTERS = 400
_STEP = re.compile(
    r"(?i)(?<![A-Za-z])(?:step|iter(?:ation)?|batch|it|update)s?\b[^A-Za-z0-9]{0,4}(\d{1,9})(?:\s?/\s?(\d{1,9}))?"
    r"|\bepochs?\W{0,3}(?:\(train\)\W{0,3})?\[?\d{1,6}\]?\W{1,4}\[?\s{0,8}(\d{1,9})\s?/\s?(\d{1,9})\]?"
)
_EPOCH = re.compile(r"(?i)\bepochs?(?:\(train\))?\W{0,4}(\d{1,6})")
_EVALUATION = re.compile(
    r"(?i)(?<![A-Za-z])(?:val(?:id(?:ation|ating)?)?|eval(?:uation|uating|uate[ds]?)?|test(?:ing)?|bleu|wer|m?ap|fid)(?![A-Za-z])"
)
_CHECKPOINT = re.compile(
    r"(?i)\b(?:sav(?:e[ds]?|ing)|wr(?:ote|iting|itten)|stor(?:ed|ing)|dump(?:ed|ing)|upload(?:ed|ing)|serializ(?:ed|ing))\b.{0,80}"
    r"\b(?:checkpoints?|ckpts?|models?|weights|state(?:_dict)?|snapshots?|\S{1,80}\.(?:pt|pth|ckpt|bin|safetensors))\b"
    r"|\b(?:checkpoint|ckpt|snapshot|weights|state)s?\b.{0,40}\b(?:saved|written|done|stored|complete)"
)
_GOES_ON = re.compile(r"(?i)\b\w{2,12}ing\b")
_RESULT = re.compile(r"\d\.\d|\d ?%")
_FIRST_BATCH = re.compile(
    r"(?i)\bfirst (?:batch|step|iteration)\b|\bworkers? (?:started|starting|restart|spawn)|"
    r"(?:starting|spawn(?:ing|ed)?) \d{1,4} workers"
)
_BEGINS = re.compile(
    r"(?i)\bepochs?\b\W{0,4}\d{1,6}(?:\W{1,3}\d{1,6})?\W{0,6}(?:$|starts?\b|started|begins?\b)|(?:start(?:ing|ed)?|begin(?:ning)?)\W{1,3}epoch\b"
)


class _Line(NamedTuple):
    """A line with a time. ``step`` and ``epoch`` are those that it counts."""

    at: float
    kind: Literal["step", "evaluation", "checkpoint", "first batch", "epoch", "other"]
    step: int = 0
    epoch: int | None = None
    steps: int | None = None
    """How many steps its epoch has, or the training."""
    begins: bool = False
    """Whether an evaluation or a checkpoint begins with it, rather than ends."""


@dataclass
class _Gap:
    """From one line that counts a step to the next."""

    begin: _Line
    between: Sequence[_Line]
    end: _Line

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.end.at - self.begin.at

    @property
    def begins_epoch(self) -> bool:
        """Whether the count has begun again."""
        return self.end.step <= self.begin.step

    @property
    def steps(self) -> int:
        """How many steps it holds, or may hold where the count begins again."""
        if not self.begins_epoch:
            return self.end.step - self.begin.step
        return self.end.step + max(0, (self.begin.steps or self.begin.step) - self.begin.step)


@dataclass
class _Pauses:
    """The pauses of one kind."""

    seconds: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)


class Pauses:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._lines: list[_Line] = []

    def read(self, line: Line) -> None:
        """Take the next line."""
        if line.at is not None and len(self._lines) < KEPT:
            self._lines.append(_read(line.text[:_CHARACTERS], line.at))

    def findings(self) -> tuple[Finding, ...]:
        """Return what the pauses say."""
        gaps = list(_gaps(self._lines))
        usual = _usual_s(gaps)
        if usual is None:
            return ()
        whole = gaps[-1].end.at - gaps[0].begin.at
        found: dict[Kind, _Pauses] = {}
        for gap in gaps:
            expected = usual * gap.steps
            excess = gap.seconds - expected
            if excess >= max(LEAST_S, (LONGER - 1) * expected):
                pauses = found.setdefault(_kind(gap), _Pauses())
                pauses.seconds.append(excess)
                pauses.steps.append(gap.end.step)
        judged = [_finding(kind, pauses, usual, whole) for kind, pauses in found.items()]
        return tuple(item for item in judged if item is not None)


def _read(line: str, at: float) -> _Line:
    step = _STEP.search(line)
    epoch = _EPOCH.search(line)
    of = int(epoch[1]) if epoch is not None else None
    if _FIRST_BATCH.search(line):
        return _Line(at, "first batch", 0, of)
    if (saves := _CHECKPOINT.search(line)) is not None:
        return _Line(at, "checkpoint", 0, of, None, _GOES_ON.search(saves[0]) is not None)
    before = line[: step.start()] if step is not None else line
    if _EVALUATION.search(before):
        return _Line(at, "evaluation", 0, of, None, _RESULT.search(before) is None)
    if step is not None:
        whole = step[2] or step[4]
        return _Line(at, "step", int(step[1] or step[3]), of, int(whole) if whole else None)
    return _Line(at, "epoch" if _BEGINS.search(line) else "other", 0, of)


def _gaps(lines: Sequence[_Line]) -> Iterable[_Gap]:
    begin: _Line | None = None
    between: list[_Line] = []
    for line in lines:
        if line.kind != "step":
            between.append(line)
            continue
        if begin is not None and not _follows(begin, line):
            continue
        if begin is not None:
            yield _Gap(begin, tuple(between), line)
        begin, between = line, []


def _follows(before: _Line, line: _Line) -> bool:
    """Return whether a line counts on, or begins to count again; that of another rank does neither."""
    if line.epoch is not None and before.epoch is not None and line.epoch != before.epoch:
        return line.epoch > before.epoch
    return line.step > before.step or line.step < before.step / 2


def _usual_s(gaps: Sequence[_Gap]) -> float | None:
    """Return how long a step usually takes: the median over gaps with nothing in between; None if there are too few."""
    plain = [gap.seconds / gap.steps for gap in gaps if not gap.begins_epoch and not gap.between]
    return statistics.median(plain) if len(plain) >= GAPS_MIN else None


def _kind(gap: _Gap) -> Kind:
    """Return what a pause belongs to: what begins before the largest part of it, or ends after it."""
    seconds: dict[Kind, float] = {}
    lines = (gap.begin, *gap.between, gap.end)
    begun: Kind | None = None
    for at, (before, after) in enumerate(itertools.pairwise(lines)):
        if before.kind in ("evaluation", "checkpoint"):
            begun = before.kind if before.begins else None
        kind = begun or _ends(lines[at + 1 :])
        if kind is None or (kind != "first batch" and before.kind == "epoch" and after is gap.end):
            begins = "first batch" in (before.kind, after.kind) or (before.kind in ("epoch", "evaluation") and after is gap.end)
            kind = "first batch" if begins else "between epochs" if gap.begins_epoch else "steps"
        seconds[kind] = seconds.get(kind, 0.0) + after.at - before.at
    return max(seconds, key=seconds.__getitem__)


def _ends(lines: Sequence[_Line]) -> Kind | None:
    """Return what ends with one of these lines, of which others may report the progress."""
    for line in lines:
        if line.kind == "first batch":
            return "first batch"
        if line.kind in ("evaluation", "checkpoint"):
            return None if line.begins else line.kind
        if line.kind != "other":
            return None
    return None


def _finding(kind: Kind, pauses: _Pauses, usual_s: float, whole_s: float) -> Finding | None:
    """Return the finding on the pauses of one kind; None if they are no pattern, or take little of the time."""
    share = sum(pauses.seconds) / whole_s
    if len(pauses.seconds) < PAUSES_MIN or share < (EVALUATION_SHARE if kind == "evaluation" else SHARE):
        return None
    if kind == "steps" and not _regular(pauses.steps):
        return None
    mean_s = units.mean(pauses.seconds)
    (title, cause, fix), refuted_by = _TEXTS[kind]
    pauses_text = f"{words.count(len(pauses.seconds), 'pause')} of {units.duration(mean_s)} on average"
    return Finding(
        id="D06" if kind == "first batch" else "E07",
        severity="warning",
        confidence="likely" if share >= SURE_SHARE and kind not in ("steps", "between epochs") else "possible",
        title=f"{title}: {share:.0%} of the time",
        evidence=(
            Fact(f"{pauses_text} in {units.duration(whole_s)}, by the times of the lines", round(mean_s, 2), "log"),
            Fact(f"a step usually takes {units.duration(usual_s)}", round(usual_s, 4), "log"),
        ),
        cause=cause,
        fix=fix,
        refuted_by=refuted_by,
    )


def _regular(steps: Sequence[int]) -> bool:
    """Return whether most pauses are at one distance, or at the distance of an epoch's same steps."""
    gaps = [after - before for before, after in itertools.pairwise(steps) if after > before]
    if len(gaps) < PAUSES_MIN - 1:
        return len(set(steps)) < len(steps)
    usual = statistics.median(gaps)
    return sum(abs(gap - usual) <= VARIATION * usual for gap in gaps) >= (1 - VARIATION) * len(gaps)


_INTENDED = "The length and frequency of the pauses are intentional."
_TEXTS: dict[Kind, tuple[Text, str]] = {
    "first batch": (FIRST_BATCH, "Something else stands between the beginning of the epoch and its first batch."),
    "evaluation": (EVALUATION, "Such a thorough evaluation is intentional."),
    "checkpoint": (CHECKPOINTS, _INTENDED),
    "between epochs": (
        Text(
            "Between epochs, the loop stands still",
            "An evaluation, a checkpoint, or the loader's workers, which start again in each epoch.",
            "DataLoader(..., persistent_workers=True)  # if it is the first batch that comes late\n"
            "gputop run -- ...  # shows whether it is an evaluation, a checkpoint or the first batch",
        ),
        _INTENDED,
    ),
    "steps": (
        Text(
            "The loop stalls at regular intervals",
            "A checkpoint, an evaluation, a collection of garbage, a plot or a log that is written then.",
            "gputop run -- ...  # shows what it is\n# do it less often, or in parallel with the training",
        ),
        _INTENDED,
    ),
}
