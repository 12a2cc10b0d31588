"""Which side a printed value is of, the training or an evaluation, in the short forms that people use. Pure.

People name the measure once for both sides ("loss: train 0.1, val 0.9"), the side once for all that follows ("Epoch 3 | val |
loss 0.9"), or shorten the sides ("tr_loss", "va_loss"). An evaluation's loss, taken for the training's, is a wrong curve.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from gputop.tracking.printed.names import NUMBER, is_measured

_TRAIN = r"(?:train(?:ing)?|trn|tr)"
_EVALUATION = r"(?:val(?:id(?:ation)?)?|vld|vl|va|eval(?:uation)?|test(?:ing)?|dev)"
_MEASURE = r"(?:loss|acc(?:uracy)?|f1|auc|auroc|m?iou|dice|ppl|perplexity|bleu|nll|b?ce|mse|mae|rmse|wer|cer|psnr|err(?:or)?)"
_ANY_MEASURE = re.compile(rf"(?<![A-Za-z]){_MEASURE}(?![A-Za-z])", re.IGNORECASE)
_FULL = {
    **dict.fromkeys(("tr", "trn"), "train"),
    **dict.fromkeys(("va", "vl", "vld"), "val"),
}
_SHORT = re.compile(r"(?:(?<=[_/])|^)(tr|trn|va|vl|vld)(?=[_/]|$)")
_JOINED = re.compile(rf"^({_TRAIN}|val(?:id(?:ation)?)?|test|eval|dev)(loss|acc|accuracy)$", re.IGNORECASE)
_SHORT_WORD = re.compile(rf"(?<![\w/.@-])(trn?|va|vld?)(?= {{1,3}}{_MEASURE}(?![A-Za-z]))", re.IGNORECASE)
_QUALIFIED = re.compile(
    rf"(?<![\w./@-])({_EVALUATION}) (?!{_MEASURE}\b|set\b|at\b|in\b)([A-Za-z][\w-]{{1,19}}) ({_MEASURE})"
    rf"(?=[\s:=]{{1,4}}{NUMBER})",
    re.IGNORECASE,
)
"""A measure of something, with its side before: "val char acc 3.1%"."""
_ERROR = re.compile(
    rf"(?<![\w./@-])({_TRAIN}|{_EVALUATION}) (err(?:or)?)(?: rate)?(?=[\s:=]{{1,4}}(?:\d{{0,9}}\.\d|nan\b))", re.IGNORECASE
)
"""The error of a side; on a line with losses, it is measured."""
_HELD_OUT = re.compile(r"(?<![\w/])(?:held?[- _]?out|hold[- _]?out|out[- _]of[- _]sample)(?: set)?(?=[ _])", re.IGNORECASE)
_IN_SAMPLE = re.compile(r"(?<![\w/])in[- _]sample(?=[ _])", re.IGNORECASE)
_GAP = r"[\s:=]{1,4}"
_BETWEEN = r"\s{0,4}%?\s{0,4}[,|;/(]?\s{0,4}"
_ONCE = re.compile(
    rf"(?<![\w/])({_MEASURE})s?\s{{0,3}}[:=|(]?\s{{0,3}}({_TRAIN}){_GAP}({NUMBER})({_BETWEEN})({_EVALUATION}){_GAP}(?={NUMBER})",
    re.IGNORECASE,
)
"""The measure, and then both sides: "loss: train=0.1 val=0.9"."""
_THEN = re.compile(
    rf"(?<![\w/])(?:({_TRAIN}[ _])({_MEASURE}){_GAP}({NUMBER})({_BETWEEN})|"
    rf"()({_MEASURE}){_GAP}({NUMBER})(\s{{0,4}}\(\s{{0,4}}))"
    rf"({_EVALUATION}){_GAP}(?=[-+]?\d{{0,9}}\.\d|nan\b)",
    re.IGNORECASE,
)
"""The training's measure, and then the evaluation's value: "train loss 0.1, val 0.9", "loss 0.1 (val 0.9)". In "loss 0.1 | val
0.9" it may be an accuracy.
"""
_AFTER = re.compile(
    rf"(?<![\w/])({_MEASURE})(?: \(|(?<!loss)/)({_TRAIN}|{_EVALUATION})(?:\)|(?<=[a-z]))(?:\s{{0,4}}[:=]\s{{0,4}}|\s{{1,4}})"
    rf"(?={NUMBER})",
    re.IGNORECASE,
)
"""The side behind its measure: "acc (val) 0.9", "acc/val 0.9"."""
_BOTH = re.compile(
    rf"(?<![\w/])(?:({_TRAIN})\s?/\s?({_EVALUATION})[ _]({_MEASURE})|({_MEASURE}) ?\(?({_TRAIN})\s?/\s?({_EVALUATION})\)?)"
    rf"{_GAP}({NUMBER})\s?/\s?(?={NUMBER})",
    re.IGNORECASE,
)
"""Both sides, and then both values: "train/val loss 0.1/0.9"."""
_HEAD = re.compile(
    rf"(?<![\w./@-])(?:({_TRAIN})|({_EVALUATION}))(?: set| phase)?\s{{0,3}}(?:[\])]\s{{0,3}}[:|–-]?|[:|–]|->|>| -)\s{{1,4}}"
    r"(?!info\b|debug\b|warn|error\b)(?=\[?\(?[A-Za-z])",
    re.IGNORECASE,
)
"""A side's name before its values, which are named."""
_SIDE_OF = re.compile(rf"(?<![\w./@-])({_TRAIN}|{_EVALUATION})(?=\s{{1,4}}{_MEASURE}[\s:=]{{1,4}}{NUMBER})", re.IGNORECASE)
_BARE = re.compile(rf"(?<![\w./@-])({_MEASURE})(?=[\s:=]{{1,4}}{NUMBER})", re.IGNORECASE)
_SIDED = re.compile(r"(val|valid|validation|eval|evaluation|test|dev)_")
_SOME = re.compile(rf"{_TRAIN}|{_EVALUATION}|out|in[- _]sample", re.IGNORECASE)
_CHARACTERS = 600
"""Lines with both sides are short."""


def full(name: str) -> str:
    """Return a metric's name with its side in full, and apart: ``va_loss`` and ``valloss`` as ``val_loss``."""
    joined = _JOINED.match(name)
    if joined is not None:
        return f"{_of(joined[1])}_{joined[2].lower()}"
    return _SHORT.sub(lambda found: _FULL[found[1]], name) if "_" in name or "/" in name else name


def each_named(line: str) -> str:
    """Return a line in which each value of a measure that is named once for both sides has a name of its own."""
    if len(line) > _CHARACTERS or not _SOME.search(line):
        return line
    line = _IN_SAMPLE.sub("train", _HELD_OUT.sub("val", line))
    line = _SHORT_WORD.sub(lambda found: _FULL[found[1].lower()], line)
    if "rr" in line and "loss" in line.lower():
        line = _ERROR.sub(lambda found: f"{_of(found[1])}_{found[2].lower()}", line)
    line = _QUALIFIED.sub(lambda found: f"{_of(found[1])}_{found[2]}_{found[3]}", line)
    line = _AFTER.sub(lambda found: f"{_of(found[2])}_{found[1]}: ", line)
    line = _ONCE.sub(lambda found: f"train_{found[1]}: {found[3]}{found[4]}{_of(found[5])}_{found[1]}: ", line)
    line = _BOTH.sub(_both, line)
    line = _each_behind_its_side(line)
    if len(_ANY_MEASURE.findall(line)) == 1:  # with several, nobody can know which one the evaluation has
        line = _THEN.sub(_then, line)
    return line


def _each_behind_its_side(line: str) -> str:
    """Return a line with the names of all sides, if each is named once, before several measures: "train bce 0.6 auc 0.7 | val
    bce 0.7 auc 0.6". Only a measure that follows several sides has no other meaning.
    """
    sides = list(_SIDE_OF.finditer(line))
    if len(sides) < 2:
        return line
    ends = [*(side.start() for side in sides[1:]), len(line)]
    bare = [list(_BARE.finditer(line, side.end() + 1, end))[1:] for side, end in zip(sides, ends, strict=True)]
    behind = Counter(name for found in bare for name in {measure[1].lower() for measure in found})
    for side, found in zip(reversed(sides), reversed(bare), strict=True):
        for measure in reversed(found):
            if behind[measure[1].lower()] > 1:
                line = f"{line[: measure.start()]}{_of(side[1])}_{line[measure.start() :]}"
    return line


def with_its_scores(metrics: Mapping[str, float]) -> Mapping[str, float]:
    """Return what a line says, whose losses are all those of one evaluation, with the scores behind them as its own, too:
    "epoch 3 val loss 0.9 acc 0.8"."""
    sides = [_SIDED.match(name) for name in metrics if "loss" in name]
    first = sides[0] if sides else None
    if first is None or any(side is None or side[1] != first[1] for side in sides):
        return metrics
    before, found = True, dict[str, float]()
    for name, value in metrics.items():
        before = before and name != first.string
        own = before or _SIDED.match(name) or "train" in name or not is_measured(name)
        found[name if own else f"{first[1]}_{name}"] = value
    return found


def sections(line: str) -> list[tuple[int, str | None]]:
    """Return where each side's values begin in a line, and the first letter of its evaluation; None for the training."""
    if len(line) > _CHARACTERS:
        return []
    return [(found.end(), found[2][0].lower() if found[2] else None) for found in _HEAD.finditer(line)]


def _of(side: str) -> str:
    return _FULL.get(side.lower(), side.lower())


def _then(found: re.Match[str]) -> str:
    train, measure, value, between = found.group(1, 2, 3, 4) if found[2] else found.group(5, 6, 7, 8)
    return f"{'train_' if train else ''}{measure}: {value}{between}{_of(found[9])}_{measure}: "


def _both(found: re.Match[str]) -> str:
    evaluation, measure = found[2] or found[6], found[3] or found[4]
    return f"train_{measure}: {found[7]}, {_of(evaluation)}_{measure}: "


_COMMA = re.compile(r"(?<=[:=\s])(-?\d{1,6}),(\d{1,8})(?=e[-+]\d|(?![\w.,:/-]))")
_POINT = re.compile(r"\d\.\d")


def with_points(line: str) -> str:
    """Return a line with decimal points, if its numbers have decimal commas, and one of them can be nothing else.

    "1,234" may also be a thousand.
    """
    if _POINT.search(line):
        return line
    found = list(_COMMA.finditer(line))
    clear = any(len(item[2]) != 3 or item[1].lstrip("-").startswith("0") for item in found)
    return _COMMA.sub(r"\1.\2", line) if clear else line
