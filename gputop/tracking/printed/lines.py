"""Metrics from one printed line, for programs without a journal; shown with the label "from the log". Pure.

``parse`` takes a line and returns its contents, or None. It accepts a line only if a measured quantity (a loss, an accuracy …)
appears in it as a name with a number; it ignores settings (``lr=0.1`` on its own, ``Namespace(…)``) and prose. Supported
formats, together with ``tables`` and ``transcript``: JSON lines, the dictionaries of the Hugging Face Trainer, tqdm's and
Lightning's bars, Keras, Megatron, torchvision's and PyTorch's examples, XGBoost, LightGBM, the tables of skorch, fastai, YOLO
and Stable-Baselines3, CSV, and ``name: number`` in any order. A number with "%" keeps its value, and its name gets ``PERCENT``.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gputop.tracking.printed.names import (
    ALSO,
    ANY_MEASURED,
    EVALUATION,
    NUMBER,
    PERCENT,
    Printed,
    is_evaluation,
    is_measured,
    lower,
)
from gputop.tracking.printed.tables import boosting

LINE_CHARACTERS = 4000
"""Only this much of a line is parsed: progress lines are short."""
SOURCE = "log"
"""The fact ``source`` of a run whose values were printed."""

# Repeats have bounds: a search is linear in the length of the line, which a training may be waiting to print.
# Not part of a date, a range, a fraction, a version, or a number with another decimal separator.
_END = r"(?![\w/]|[.,:]\d|-\d|\s{0,9}\*)"
_PAIR = re.compile(
    rf"(?<![\w./@-])([A-Za-z][\w/.@-]{{0,99}})[\"']?(\s{{0,60}}[:=]\s{{0,60}}|\s{{1,60}})"
    rf"(?:(?:tensor|(?:np\.|numpy\.)?float\d\d)\(\s{{0,9}})?({NUMBER}){_END}",
    re.IGNORECASE,
)
_BEFORE = re.compile(r"([A-Za-z]{1,30})[ _-]$")
_STEP = re.compile(
    r"(?<![\w/])(?:(?:global|train|training)[ _])?(?:step|iteration|iter|it|num_updates|updates?)s?"
    r"\s{0,20}[:=#]?\s{0,20}\[?\s{0,20}(\d{1,15})(?:\s{0,20}(?:/|of)\s{0,20}(\d{1,15}))?(?![\w.%])",
    re.IGNORECASE,
)
_BATCHES = re.compile(r"(?<![\w/.])(\d{1,15})\s{0,20}/\s{0,20}(\d{1,15})\s+batches\b", re.IGNORECASE)
_EPOCH_AND_BATCH = re.compile(
    r"\[\s{0,20}(\d{1,15})\s{0,20}/\s{0,20}(\d{1,15})\s{0,20}\]"
    r"\s{0,20}\[\s{0,20}(\d{1,15})\s{0,20}/\s{0,20}(\d{1,15})\s{0,20}\]"
)
_OF_EPOCH = re.compile(r"epochs?\s{0,3}[:=#]?\s{0,3}$", re.IGNORECASE)
# A loss that is followed by its step and only then by its value; Keras' guides print "(for one batch)" in between.
_AT = re.compile(
    r"(?<!\w)(\w{0,99}(?:loss|acc|accuracy|perplexity|reward|return))(?: \([^()]{0,40}\))?"
    r" (?:at|after|for|in) ((?:step|iteration|iter|epoch) \d{1,15})(?=\s{0,9}(?:[:=]|is\b))",
    re.IGNORECASE,
)
_BATCH = re.compile(
    r"(?<![\w/])(?:batch\s{0,20}[:=#]?\s{0,20}\[?|\]\s{0,20}\[|\[)"
    r"\s{0,20}(\d{1,15})\s{0,20}/\s{0,20}(\d{1,15})\s{0,20}\]?(?![\w.%]|\s{0,20}\()",
    re.IGNORECASE,
)
_EPOCH = re.compile(
    r"(?<![\w/])epochs?\s{0,20}[:=#]?\s{0,20}[\[(]?\s{0,20}"
    r"(\d{1,15}(?:\.\d{1,15})?)(?:\s{0,20}(?:/|of)\s{0,20}(\d{1,15}))?(?![\w%]|\.\d)",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"\W{0,80}(?:starting |start )?epochs?\s{0,20}[:=#]?\s{0,20}\[?\d{1,15}"
    r"(?:\s{0,20}(?:/|of)\s{0,20}\d{1,15})?\]?\W{0,80}",
    re.IGNORECASE,
)
_BAR = re.compile(r"(?:\|\s{0,20}|^\s{0,20})(\d{1,15})/(\d{1,15})\s{0,20}(?:\[\d{1,9}:|[━\[=])")
_CALL = re.compile(r"\b[A-Za-z_]\w{0,99}\(\w{1,99}\s{0,9}=")
_KINDS = {"v": "val", "e": "eval", "t": "test"}
# Words before a name that add nothing to it; then words that make it something other than a metric.
_NEUTRAL = frozenset(
    [
        *("the", "a", "with", "and", "current", "cur", "its", "has", "at", "got"),
        *("batch", "iter", "step", "mean", "average", "avg", "is", "of"),
    ]
)
_NO_METRIC = frozenset(["packet", "data", "stop", "weight", "frame", "signal", "heat", "power", "hearing", "profit", "no"])
_NO_NAMES = frozenset(["time", "timestamp", "ts", "pid", "v_num", "level", "line", "port", "size"])


def parse(line: str) -> Printed | None:
    """Return the training progress that a line reports; None for any other line. Never raises."""
    line = line[:LINE_CHARACTERS]
    listed = boosting(line)
    if listed is not None:
        return listed
    if _HEADING.fullmatch(line):
        epoch = _EPOCH.search(line)
        return Printed(epoch=float(epoch[1]), epochs=_int(epoch[2])) if epoch else None
    if not ANY_MEASURED.search(line):
        return None
    start, end = line.find("{"), line.rfind("}")
    if 0 <= start < end:
        entries = _dictionary(line[start : end + 1])
        return _from_dictionary(entries) if entries else None
    return None if _CALL.search(line) else _from_text(line)


def _dictionary(text: str) -> dict[str, Any] | None:
    for read in (json.loads, _python):
        try:
            found = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        return found if isinstance(found, dict) else None
    return None


def _python(text: str) -> Any:
    return ast.literal_eval(re.sub(r"(?<=: )(-?)(nan|inf)(?=[,}])", r"'\1\2'", text))


def _flat(data: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}/")
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            number = _float(value)
            if number is not None:
                yield f"{prefix}{key}", number


def _from_dictionary(data: dict[str, Any]) -> Printed | None:
    values = dict(_flat(data))
    metrics = {name: value for name, value in values.items() if not _is_counter(name) and name.lower() not in _NO_NAMES}
    if not any(is_measured(name) for name in metrics):
        return None
    steps = [values[name] for name in ("step", "global_step", "iteration", "iter", "num_updates") if name in values]
    step = next((int(value) for value in steps if math.isfinite(value) and value == int(value)), None)
    epoch = values.get("epoch")
    return Printed(metrics, step, None, epoch if epoch is not None and math.isfinite(epoch) else None)


def _is_counter(name: str) -> bool:
    return name.lower() in (
        "step",
        "global_step",
        "iteration",
        "iter",
        "num_updates",
        "epoch",
        "epochs",
        "total_steps",
        "batch",
    )


def _from_text(line: str) -> Printed | None:
    at = _AT.search(line)
    if at is not None:
        line = f"{at[2]}, {line[: at.start()]}{at[1]}{line[at.end() :]}"
    bar = _BAR.search(line)
    evaluation = EVALUATION.match(line)
    metrics: dict[str, float] = {}
    for match in _PAIR.finditer(line):
        percent = line[match.end() : match.end() + 1] == "%"
        if percent and bar is not None and line.startswith("|", match.end() + 1):
            continue  # the bar's progress, after its heading: "Map:  5%|"
        name = _name(line, match, every=bar is not None, percent=percent)
        if name is None or name in metrics:
            continue
        if evaluation and not is_evaluation(name):
            name = f"{_KINDS[evaluation[1][0].lower()]}_{name}"
        metrics[f"{name}{PERCENT}" if percent else name] = float(match[3])
    if not any(is_measured(name) for name in metrics):
        return None
    epoch = _EPOCH.search(line)
    both = _EPOCH_AND_BATCH.search(line) if epoch is None else None
    if both is not None:
        return Printed(metrics, int(both[3]), int(both[4]), float(both[1]), int(both[2]), batch=True)
    batch = _BATCHES.search(line) or _BATCH.search(line)
    step = None if evaluation else _STEP.search(line) or batch or bar
    return Printed(
        metrics,
        int(step[1]) if step else None,
        _int(step[2]) if step else None,
        float(epoch[1]) if epoch else None,
        _int(epoch[2]) if epoch else None,
        step is not None and step is bar,
        step is not None and step is batch and not _OF_EPOCH.search(line, max(0, step.start() - 20), step.start()),
    )


def _name(line: str, match: re.Match[str], every: bool, percent: bool) -> str | None:
    """Return the metric's name with the word before it, or None if it is no metric. ``every``: all pairs count (a bar)."""
    name, separator = match[1].rstrip("."), match[2].strip()
    before = _BEFORE.search(line, max(0, match.start() - 30), match.start())
    word = before[1].lower() if before else ""
    if is_measured(name):
        if word in _NO_METRIC:
            return None
        if not separator and (name.lower() != "loss" and not name[-1].isdigit() and word not in _PREFIXES):
            a_number = percent or "." in match[3] or "e" in match[3].lower()
            return lower(name) if a_number else None
        known = word in _PREFIXES or (separator and word and word not in _NEUTRAL)
        return f"{word}_{name.lower()}" if known else lower(name)
    joined = f"{word}_{name}".lower() if word else name.lower()
    for candidate in (joined, name.lower()):
        if ALSO.search(candidate):
            return candidate
    if every and separator == "=" and name.lower() not in _NO_NAMES and not _is_counter(name):
        return name
    return None


_PREFIXES = frozenset(
    [
        "train",
        "training",
        "val",
        "valid",
        "validation",
        "eval",
        "evaluation",
        "test",
        "dev",
        "total",
        "lm",
        "nll",
        "ce",
        "mlm",
        "final",
        "best",
    ]
)


def _int(text: str | None) -> int | None:
    return int(text) if text is not None else None


def _float(value: int | float | str) -> float | None:
    if isinstance(value, str) and not re.fullmatch(NUMBER, value.strip(), re.IGNORECASE):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
