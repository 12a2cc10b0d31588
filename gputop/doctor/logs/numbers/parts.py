"""The parts of a step that a line prints with their times, and what each is spent on, judging by the names. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from gputop.tracking.printed.rates import overlaps

PartKind = Literal["data", "waiting", "communication", "saving", "evaluation", "logging", "compute", "whole"]

LINES_MIN = 5
"""At least this many lines with times show what is usual (our choice)."""
_NAME = (
    r"(?<![\w./-])([Ww]aits? for (?:the )?others|[A-Za-z][\w+/-]{0,40}(?: (?:wait|time|loading|ready))?)"
    r"(?: ?\((?:(?P<in>m?s|sec|seconds)|t|(?:incl|excl|with|without)\b[a-z. ]{0,20})\))?"
)
_PART = re.compile(
    rf"{_NAME}[\"']?[ :=]{{1,5}}(\d{{1,6}}\.\d{{1,6}}|\d{{1,7}}(?= ?m?s\b))"
    r"(?: ?(?P<unit>m?s|sec|seconds)\b|(?=[\s|,;)\]}](?! ?(?:%|min|h\b|[KMGT]i?B\b))|$))"
)
_WHOLE_NUMBER = re.compile(rf"{_NAME}[\"']?[ :=]{{1,6}}(\d{{1,6}})(?=[\s|,;)\]}}]|$)")
_ROW = re.compile(r"(?<![\d./])\d{1,5}\.\d{1,6}(?: / \d{1,5}\.\d{1,6}){1,7}(?![\d/])")
_LEGEND = re.compile(r"(?<![\w/])[A-Za-z][\w+-]{0,30}(?: / [A-Za-z][\w+ -]{0,30}?){1,7}(?=[,.;()]|$)")
_WAIT_FOR_GPU = re.compile(r"(?i)\b(?:cuda|gpu|device) $")
"""Before "sync": it waits for the GPU, not for other ranks."""
_HEADING = re.compile(r"\btime \((m?s)\)")
"""DeepSpeed's line of times has its unit before the first of them."""
_OF_MEGATRON = re.compile(r"^\s{1,12}([a-z][\w-]{2,60}) \.{2,60}: \((\d{1,9}\.\d{1,4}), (\d{1,9}\.\d{1,4})\)")
"""A timer with its shortest and its longest time among the ranks, in milliseconds."""
_WITHIN_OTHERS = re.compile(r"^(?:forward-backward|interval-time|optimizer-.{1,40}|.{1,40}-(?:setup|barrier))$")
"""Megatron's timers that hold others, or are part of another one."""
_WORKS = (
    r"fwd|bwd|forward|backward|busy|comp(?:ute)?|opt(?:im(?:izer)?)?|upd(?:ate|t)?|model|gpu|train|rollout|sampl(?:e|ing)|"
    r"generat(?:e|ion)|learn|actor|critic|grad"
)
_EXPRESSIONS: tuple[tuple[PartKind, str], ...] = (
    (
        "communication",
        r"all[-_]?reduce|all[-_]?gather|grads?-sync|reduce[-_]?scatter|comm(?:s|unication)?(?![a-z])|"
        r"sync(?!bn|hron)|barrier|nccl",
    ),
    ("saving", r"(?<!last_)(?<!time )sav(?:e|ing)(?!d)|checkpoint(?!_age)|ckpt(?!_age)|snapshot"),
    ("evaluation", r"(?<![a-z])(?<!inner_)(?:eval(?:uat\w{2,5})?|val(?:id\w{0,7})?|test(?:ing)?)(?![a-z])"),
    ("logging", r"(?<![a-z])(?:log(?:ging)?(?!_)|metrics?|plot|vis(?:ual)?|tensorboard|wandb)(?![a-z])"),
    (
        "data",
        r"(?<![a-z])(?:get|ready|reader_cost|until_(?:batch|data)|data(?!/(?!time|wait|load))|input|fetch|load(?:er|ing)?|"
        r"batch[_ ]?(?:get|gen|prep)|h2d|preproc|augment|decode(?!r)|tokeniz|collate)",
    ),
    (
        "whole",
        r"^(?:step|iter|iteration|batch|total|elapsed|epoch|train)?[_/ ]?(?:time|total|m?s|sec|dur(?:ation)?|iter|iteration)$"
        r"|^(?:step|dt|batch|(?:avg_)?batch_cost)$",
    ),
    ("compute", rf"(?<![a-z])(?:{_WORKS})(?![a-z])|fwd|bwd"),
)
_KINDS = tuple((kind, re.compile(rf"(?i){expression}")) for kind, expression in _EXPRESSIONS)
_NO_TIME = re.compile(r"(?i)loss|acc|score|rew|return|norm|(?<![a-z])(?:lr|f1|ppl|m?ap|iou|auc|err|mse|mae|kl|nll|ce)(?![a-z])")
"""What is measured of the model, not of its pace."""
_WAITS = re.compile(r"(?i)^(?:wait(?:s|ed|ing)?|idle|blocked)(?![a-z])")
_KINDS_OF_DATA = re.compile(r"(?i)data|batch|load|input|fetch")
WHOLE_SHARE = 0.8
"""The time of a whole step is at least this share of the sum of its parts, some of which may overlap (our choice)."""
_OF_ESPNET = "iter_time", "train_time"
"""ESPnet's time until the iterator gives a batch, and that of the whole step."""
_ENDS_WITH_A_UNIT = re.compile(r"^(?!.*per_)(?:.*_(m?s|secs?|time)|(?:m?s|t|sec)_.*)$")
_CLEAR = re.compile(
    r"data|load|fetch|get|(?:batch )?ready|fwd|bwd|fwd[+/]?bwd|forward[+/]backward|bwd\+all[-_]?reduce|forward|backward|"
    r"busy|comp(?:ute)?|all[-_ ]?reduce|sync|comm|wait(?:ed)?|time|dt|batch|step(?:_time)?|"
    r"(?:avg_)?(?:reader|data|batch)_cost"
)
"""Names that mean parts of a step even if no unit follows the number."""
_WORDS_OF_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COUNTED = frozenset(("b", "batches", "it", "iters", "steps", "games", "episodes", "samples"))
_COUNT = re.compile(r"([A-Za-z][\w+/-]{1,20})[ :=]{1,3}\d{1,9} $")
"""Before what is counted, which comes before its time: "train 400 b 19.4 s"."""
_COUNTS = ("step", "iter", "iteration", "batch", "epoch")
"""Before a whole number, these names count something."""
_NESTED = ("bwd_inner", "bwd_allreduce"), "bwd"
"""DeepSpeed's parts of another part."""

_N = r"(\d{1,6}(?:\.\d{1,6})?)"
_RATE = r"(?:, {0,4}[\d.,]{1,12} ?/ ?s)?"
_MEAN = rf" {{0,3}}[:= ] {{0,3}}\d{{1,6}}(?:\.\d{{1,6}})? ?(?:m?s)?{_RATE} {{1,3}}\( {{0,4}}{_N} ?(m?s)?{_RATE}\)"
_DATA_MEAN = re.compile(rf"(?i)(?<![\w/.-])data(?:[_ ]?(?:time|load(?:ing)?(?:[_ ]time)?))?{_MEAN}")
_STEP_MEAN = re.compile(rf"(?i)(?<![\w/.-])(?<!data )(?<!load )(?<!loading )(?:(?:batch|iter|step)[_ ]?time|time|batch){_MEAN}")
"""The mean so far in brackets behind the time of one batch: "Data 0.001 (11.8)", and timm's rates beside both."""


def parts_of(text: str) -> dict[str, float]:
    """Return the seconds of each part that a line prints, by its name in lower case; as printed if it names no unit.

    Leaves out data that is loaded alongside the steps, or that a model decodes after it was encoded: nothing waits for it.
    """
    timer = _OF_MEGATRON.match(text) if " ..." in text else None
    if timer is not None:
        return {} if within_others(timer[1]) else {timer[1]: float(timer[3]) * 1e-3}
    heading = _HEADING.search(text)
    found: dict[str, float] = {}
    without: dict[str, float] = {}
    for match in _PART.finditer(text, heading.end() if heading is not None else 0):
        unit = match["unit"] or match["in"] or (heading[1] if heading is not None else "")
        if (not match["unit"] and _NO_TIME.search(match[1])) or (heading is not None and within_others(match[1])):
            continue
        name, seconds = _lower(match[1]), float(match[3])
        if name in _COUNTED and (counted := _COUNT.search(text, max(0, match.start() - 40), match.start())) is not None:
            name = counted[1].lower()
        if name == "sync" and _WAIT_FOR_GPU.search(text, max(0, match.start() - 8), match.start()):
            name = "gpu"
        named = _ENDS_WITH_A_UNIT.search(name)
        if unit or named is not None:
            unit = unit or ("ms" if named is not None and named[1] == "ms" else "")
            found.setdefault(name, seconds * (1e-3 if unit == "ms" else 1.0))
        elif kind_of(name) is not None:
            without.setdefault(name, seconds)
    if without and (found or are_times(without)):
        found = {**without, **found}
    if not found:
        found = _of_whole_numbers(text)
    if found.keys() >= set(_OF_ESPNET) and found[_OF_ESPNET[0]] <= found[_OF_ESPNET[1]]:
        found["data_time"] = found.pop(_OF_ESPNET[0])
    if overlaps(text) or any("encod" in name for name in found):
        found = {name: seconds for name, seconds in found.items() if kind_of(name) != "data"}
    inner, outer = _NESTED
    if found.keys() >= set(inner):
        found.pop(outer, None)
    return found


def _lower(name: str) -> str:
    """Return a name in lower case; one such as "DataLoadingTime", which names a time, with its words apart."""
    return (_WORDS_OF_CAMEL.sub("_", name) if name.endswith("Time") else name).lower()


def means_in(text: str) -> tuple[float, float] | None:
    """Return the running means of the time for data and of the whole step, in one unit; None if a line does not print both."""
    data = _DATA_MEAN.search(text) if "(" in text else None
    step = _STEP_MEAN.search(text) if data is not None else None
    if data is None or step is None or (data[2] == "ms") != (step[2] == "ms"):
        return None
    part, whole = float(data[1]), float(step[1])
    return (part, whole) if part <= whole and not overlaps(text) else None


def within_others(name: str) -> bool:
    """Return whether a timer of Megatron's holds others, or is part of another one."""
    return _WITHIN_OTHERS.match(name) is not None


def are_times(without: Mapping[str, float]) -> bool:
    """Return whether numbers without any unit are times: several names are clearly those of parts, of more than one kind.

    "train 0.3 val 0.4", "input 0.9 grad 0.1" and the like are losses, scores and statistics.
    """
    clear = {kind_of(name) for name in without if _CLEAR.fullmatch(name)}
    return len(clear) > 1 and bool(clear & {"compute", "whole"})


def _of_whole_numbers(text: str) -> dict[str, float]:
    """Return the parts of a line without fractions or units: of milliseconds by their names, or if they add up to a whole."""
    found = {
        match[1].lower(): float(match[3])
        for match in _WHOLE_NUMBER.finditer(text)
        if kind_of(match[1]) is not None and not _NO_TIME.search(match[1]) and match[1].lower() not in _COUNTS
    }
    named = {name: number * 1e-3 for name, number in found.items() if name.endswith("_ms")}
    if len(named) > 1:
        return named
    wholes = [number for name, number in found.items() if kind_of(name) == "whole"]
    known = sum(found.values()) - sum(wholes)
    if len(found) > 2 and are_times(found):
        return found
    adds_up = len(wholes) == 1 and len(found) > 2 and WHOLE_SHARE * known <= wholes[0] <= known / WHOLE_SHARE
    return found if adds_up else {}


class Legend:
    """The names of parts whose times stand in rows, "0.012 / 0.991 / 0.043", said once: "load / compute / wait"."""

    def __init__(self) -> None:
        """Start without names."""
        self._names: tuple[str, ...] = ()

    def parts_of(self, text: str) -> dict[str, float]:
        """Return the parts that a line prints, by ``parts_of`` or in a row."""
        found = parts_of(text)
        if found or " / " not in text:
            return found
        row = _ROW.search(text)
        if row is not None:
            values = row[0].split(" / ")
            return dict(zip(self._names, map(float, values), strict=True)) if len(values) == len(self._names) else {}
        legend = _LEGEND.search(text)
        names = tuple(name.strip().lower() for name in legend[0].split(" / ")) if legend is not None else ()
        if sum(kind_of(name) is not None for name in names) > 1:
            self._names = names
        return {}


def kind_of(name: str) -> PartKind | None:
    """Return what a part is spent on; None if its name does not say."""
    if _WAITS.search(name) and not _KINDS[0][1].search(name):
        return "data" if _KINDS_OF_DATA.search(name) else "waiting"
    return next((kind for kind, form in _KINDS if form.search(name)), None)


def spent(parts: Mapping[str, float]) -> dict[PartKind, float]:
    """Return how long each kind of work takes. A whole step is not one, unless it is too short to be whole: an optimizer's
    step."""
    found: dict[PartKind, float] = {}
    wholes = []
    for name, seconds in parts.items():
        kind = kind_of(name) or "compute"
        if kind == "whole":
            wholes.append(seconds)
        else:
            found[kind] = found.get(kind, 0.0) + seconds
    known = sum(found.values())
    for seconds in wholes:
        if seconds < WHOLE_SHARE * known:
            found["compute"] = found.get("compute", 0.0) + seconds
        elif len(wholes) == 1 and seconds > known:
            found["compute"] = found.get("compute", 0.0) + seconds - known
    return found
