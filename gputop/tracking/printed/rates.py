"""The pace that a printed line reports: rates, times of a step, and times of a whole training or evaluation. Pure.

A rate has one name, however it is printed: "1.5s/it", "4.0it/s" and "dt: 250ms" are ``it_per_sec``, and "170K tok/s" is
``tokens_per_sec``. The time for data and that of the step count only if one line holds both, and it is not about the first
batch of an epoch.
"""

from __future__ import annotations

import re

from gputop.tracking.printed.names import EVALUATION

_N = r"(\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,25})?|\d{1,25}(?:\.\d{1,25})?(?:e[+-]?\d{1,3})?)"
_UNIT = (
    r"(it|iters?|iterations?|steps?|batch(?:es)?|toks?|tks|tokens?|samples?|sequences?|imgs?|images?|ex|examples?|sentences?|"
    r"win|windows?|utts?|utterances?|clips?|frames?|graphs?|patches|tiles|docs?|pairs|crops|rows|records|mols?|molecules|"
    r"volumes?|scenes?|ins|instances?)"
)
_SECOND = r"s(?:ec(?:ond)?)?\b"
_PER_S = re.compile(rf"(?i)(?<![\w.,]){_N} ?([KM])? ?{_UNIT} ?(?:/|per |p) ?{_SECOND}(?!\s{{0,9}}[:=]\s{{0,9}}\d)")
_NAMED_BEFORE = re.compile(r"(?:^|[\s|,;(\[])[A-Za-z][\w/@-]{0,30}[ :=]{1,3}$")
_OF_WHAT = r"(?:/(?:gpu|dev|device|worker|rank|node)|[ /]per (?:gpu|device|rank|node)| ?\([A-Za-z ]{1,20}\))?"
"""What a rate is of, behind its unit."""
_FOLLOWED = re.compile(
    rf"(?i){_OF_WHAT}(?: ?\[[a-z]{{1,5}}\])?(?:\s{{0,9}}[:=]\s{{0,9}}|\s{{1,9}})"
    rf"~?(?:{_N} ?[KM]?(?! ?[a-z]{{1,12}}/|[\w/%]|[.,]\d)|nan\b|none\b|n/a)"
)
"""In "ppl 135.0 tok/s 61311", the number before has its own name, and the one behind has no other unit."""
_NAMED = re.compile(
    r"(?i)(?<![A-Za-z])(?<!val_)(?<!val/)(?<!test_)(?<!test/)(?<!eval_)(?<!eval/)"
    rf"{_UNIT}(?:/|_per_| per |/ ){_SECOND}{_OF_WHAT}[\"']?\s{{0,20}}[:=]?\s{{0,20}}~?{_N}( ?[KM])?(?![\w/]|,\d)"
)
_S_PER = re.compile(rf"(?i)(?<![\w.,]){_N} ?(m?s)(?:ec)?/(?:it|iter|step|batch)\b")
_NAMED_S_PER = re.compile(
    rf"(?i)(?<![\w/])(?:s|sec|secs|seconds)/(?:it|iter|step|batch|tick|kimg)\s{{0,9}}[:=]?\s{{1,20}}{_N}(?![\w/]|,\d)"
)
"""StyleGAN's "sec/kimg 75.55" takes the name first."""
_CAMEL = re.compile(rf"(?<![A-Za-z])Curr(Samples)PerSec[=:] ?{_N}")
_IPS = re.compile(rf"(?i)(?<![\w/])ips[:=] ?{_N}(?=[\s,;]|$)(?! ?{_UNIT}\b)")
_OF_PADDLE = re.compile(r"(?<![a-z])(?:reader|batch)_cost[:=]")
"""Next to these times, Paddle's "ips" counts samples; elsewhere it may count anything."""
_MS_NAMES = (
    r"\bdt|(?<!data )(?<!load )\btime|elapsed time per iteration \(ms\)|\bms per (?:batch|step|iter)|\bms/(?:batch|step)"
)
_MS = re.compile(rf"(?i)(?:{_MS_NAMES})\s{{0,20}}[:=]?\s{{0,20}}{_N}(?: ?ms\b|(?= ?[|,]|$))")
_STEP_MS = re.compile(rf"(?i)(?<![a-z])(?:step|iter(?:ation)?|batch)(?:_time)?_ms[\"']?\s{{0,3}}[:=]\s{{0,3}}{_N}( ?[KM]\b)?")
_LONE_MS = re.compile(rf"\|\s{{0,9}}{_N} ?ms\s{{0,9}}(?=\||$)")
"""A cell between bars that holds nothing but milliseconds, as llm.c prints them."""
_MS_UNIT = re.compile(r"(?i)\d ?ms\b|\(ms\)|\bms[ /]")
_NAMES = {
    **dict.fromkeys(("tok", "tks"), "tokens"),
    "img": "images",
    "ima": "images",
    **dict.fromkeys(("ite", "it", "ste", "bat"), "it"),
}
"""By the first letters of a unit; all others are those of samples."""
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6}

_NO_TIME = re.compile(r" ?(?:[KMGT]i?B\b|\((?!\d))")
"""A size, or a remark that says what it is."""
_NUMBER = r"[\s:=]+(\d+\.\d+|\d+(?= ?m?s(?:ec)?(?:[\s,;(|\])]|$))) ?(ms|s)?(?:ec)?(?=[\s,;(|\])]|$)"
_DATA = re.compile(
    r"(?i)(?<![\w/])(?:d_time|(?:avg_)?(?:reader|data)_cost|data(?:[_ ]?(?:time|wait|load(?:er|ing)?(?:_time)?))?|time/data|"
    rf"fetch(?:_time)?|load(?:ing)?_time|"
    rf"wait(?:ed|ing)?(?: time)?(?: for)?(?: the)?(?: next)?(?: (?:batch|data|loader))){_NUMBER}"
)
_STEP = re.compile(
    r"(?i)(?<![\w/])(?<!data )(?<!load )(?<!loading )(?<!wait )(?<!fetch )"
    r"(?<!forward )(?<!backward )(?<!elapsed )(?<!epoch )(?<!total )"
    r"(?:(?:b(?:atch)?_|iter_|step_)?time|(?:avg_)?batch_cost|time/(?:iter|step|batch)|dt|"
    # Without a unit, "total 0.51 data 0.31" are parts of a loss.
    rf"total(?:[ _]time|(?=[\s:=]+[\d.]{{1,20}} ?m?s))){_NUMBER}"
)
_COMPUTE = re.compile(rf"(?i)(?<![\w/])(?:compute(?:_time)?|fwd[/+_]bwd|forward[/+_]backward){_NUMBER}")
"""What a step takes besides its data."""
_OVERLAPS = re.compile(r"(?i)\boverlap|\bin (?:the )?background\b|\bprefetched\b|\bpr[ée]charg[ée]e?s?\b")
_PLACE = re.compile(r"(?<![\d./:])(\d{1,9})\s?/\s?\d{2,9}\b(?!:\d)")
_OF_EPOCH = re.compile(r"(?i)\bepochs?\W{0,4}$")
_STEP_0 = re.compile(r"(?i)\b(?:step|iter|batch)\W{1,3}0\b(?!\.)")

_CLOCK = (
    r"(?:(?:(\d{1,25}):)?(\d{1,25}):(\d{1,25}(?:\.\d{1,25})?)|"
    r"(\d{1,25}(?:\.\d{1,25})?) ?(ms|m(?:in(?:utes?)?)?|h(?:ours?)?|s(?:ec(?:onds?)?)?)?\b)"
)
_TOOK = r"(?:time|runtime|duration|took|(?:finished|done|completed) in)"
_WHOLE = re.compile(
    r"(?i)\b(?P<what>train(?:ing)?|epoch|val(?:id(?:ation)?)?|eval(?:uation)?)(?:[ _](?:epoch|loop|phase|step))?"
    rf"(?: \d{{1,15}}(?:/\d{{1,15}})?)?[ _:]{{0,9}}{_TOOK}(?:_?s(?:ec)?)?[\"']?(?: taken)?[\s:=]{{1,60}}{_CLOCK}"
)
_THIS_EPOCH = re.compile(rf"(?i)\btime (?:(?:of|for) )?this epoch ?[:=] {{0,4}}{_CLOCK}(?! ?(?:/|of\b))")
_PARTS = re.compile(r"(?<![\w/])(?:iter|forward)_time=")
"""Times of the parts of a step: the "train_time" next to them is that of the step."""
_SPAN = r"[\s:=]{1,9}(\d{1,25}(?:\.\d{1,25})?) ?(ms|s|m)(?:ec|in)?\b"
_BOTH = re.compile(rf"(?i)(?<![\w/.])train(?:ing)?{_SPAN}.{{1,80}}?(?<![\w/.])(?:val(?:id(?:ation)?)?|eval(?:uation)?){_SPAN}")
"""Two times side by side, "train 12.1s eval 4.0s": without the word time, only both together say what they are."""
_EPOCH = re.compile(
    r"(?i).{0,80}?(?<![\w/.])epochs?[ :=#\[]{1,4}\d{1,9}\b(?!.{0,300}\b(?:steps?|iter(?:ation)?s?|batch(?:es)?)\W{1,20}\d)"
)
_EPOCH_TOOK = re.compile(rf"(?i)(?<![\w/.])(?:time|took|duration)[\s:=]{{1,4}}{_CLOCK}")
"""A line about a whole epoch, with its loss and then how long it took: "epoch 1 train_loss 0.7 time 41.3s"."""
_LONE_S = re.compile(r"(?<=[\s(\[|])(\d{1,6}(?:\.\d{1,3})?) ?s(?:ec(?:onds?)?)?(?=[\s)\],|]|$)")
_COUNTED = re.compile(r"(?i)epochs?\W{0,4}\d{1,9}(?:\s?/\s?\d{1,9})?")
_OF_BATCH = re.compile(r"\d\s?/\s?\d")
_NAMED_BEFORE_IT = re.compile(r"[A-Za-z][:=]?\s{0,4}$|[:=]\s{0,4}$")
"""A line about a whole epoch may end with nothing but the seconds: "epoch 1 loss 0.7 96.8s"."""
_GOES_ON = re.compile(
    r"(?i),\d{3}|e[+-]?\d|(?<![a-z])[ ,]?\d|(?<=h)\s?\d|(?<=min)\s?\d|(?<=hours)\s?\d|\.\d|"
    r"\s?days?\b|\s?(?:h|hours?|min|minutes?|m)\b|\s?[ap]m\b"
)
"""What follows a time that was not read to its end."""
OF_DAY = 6
"""This many hours at the end of an epoch's line are a time of day (our choice)."""
_UNITS = {"m": 60.0, "h": 3600.0, "s": 1.0, "ms": 1e-3}
_ANY = re.compile(r"(?i)data|wait|/ ?s|s(?:ec)?/|ps\b|per.?s|\bdt\b|time|runtime|took|duration| in \d|ms")
TRAINING_S, EPOCH_S, EVALUATION_S = "training_s", "epoch_s", "evaluation_s"
DATA_TIME, STEP_TIME = "data_time", "time"


def overlaps(line: str) -> bool:
    """Return whether a line says that the data is loaded alongside the steps, so that nothing waits for it."""
    return _OVERLAPS.search(line) is not None


def is_of_first_batch(line: str) -> bool:
    """Return whether a line is about the first batch of an epoch, for which the workers start.

    Where a script prints every fiftieth batch, its times would count for fifty.
    """
    *_, place = (None, *(found for found in _PLACE.finditer(line) if not _OF_EPOCH.search(line[: found.start()][-12:])))
    return (place is not None and int(place[1]) <= 1) or _STEP_0.search(line) is not None


def paces(line: str) -> dict[str, float]:
    """Return what a line says about a run's pace, by name: rates in 1/s, and the time for data and the step as printed."""
    if not _ANY.search(line):
        return {}
    found: dict[str, float] = {}
    for match in _PER_S.finditer(line):
        if _is_of_another(line, match):
            continue
        _add(found, match[3], _number(match[1]) * _FACTORS[(match[2] or "").lower()])
    for match in _NAMED.finditer(line):
        _add(found, match[1], _number(match[2]) * _FACTORS[(match[3] or "").strip().lower()])
    for match in _CAMEL.finditer(line):
        _add(found, match[1], _number(match[2]))
    if "ips" in line and _OF_PADDLE.search(line) and (each := _IPS.search(line)) is not None:
        _add(found, "samples", _number(each[1]))
    slow, named = _S_PER.search(line), _NAMED_S_PER.search(line)
    slow = None if slow is not None and _is_of_another(line, slow) else slow
    if slow is not None:
        _add(found, "it", _inverse(_number(slow[1]) * (1e-3 if slow[2].lower() == "ms" else 1.0)))
    elif named is not None:
        _add(found, "it", _inverse(_number(named[1])))
    elif "it_per_sec" not in found and (each := _milliseconds(line)) is not None:
        factor = _FACTORS[(each[2] or "").strip().lower()] if each.re is _STEP_MS else 1.0
        _add(found, "it", _inverse(_number(each[1]) * factor * 1e-3))
    data = _DATA.search(line) if not is_of_first_batch(line) else None
    data = None if data is not None and (_NO_TIME.match(line, data.end()) or overlaps(line)) else data
    step = _STEP.search(line) if data is not None else None
    rest = _COMPUTE.search(line) if data is not None and step is None else None
    if data is not None and rest is not None and (data[2] == "ms") == (rest[2] == "ms"):
        found[DATA_TIME], found[STEP_TIME] = float(data[1]), float(data[1]) + float(rest[1])
    elif data is not None and step is not None and (data[2] == "ms") == (step[2] == "ms"):
        found[DATA_TIME], found[STEP_TIME] = float(data[1]), float(step[1])
        if "it_per_sec" not in found:
            _add(found, "it", _inverse(float(step[1]) * (1e-3 if step[2] == "ms" else 1.0)))
    return found


def _milliseconds(line: str) -> re.Match[str] | None:
    """Return what says how many milliseconds a step took."""
    found = _STEP_MS.search(line)
    if found is None and _MS_UNIT.search(line):
        found = _MS.search(line) or _only(_LONE_MS, line)
    return found


def _only(form: re.Pattern[str], line: str) -> re.Match[str] | None:
    """Return what a form finds if it is all that it finds."""
    found = list(form.finditer(line))
    return found[0] if len(found) == 1 else None


def _is_of_another(line: str, found: re.Match[str]) -> bool:
    """Return whether the number before a unit has a name of its own, and the unit is the name of the number behind it."""
    return (
        _FOLLOWED.match(line, found.end()) is not None
        and _NAMED_BEFORE.search(line, max(0, found.start() - 40), found.start()) is not None
    )


def whole_times(line: str) -> dict[str, float]:
    """Return the seconds that a line says a training, an epoch or an evaluation took, by name."""
    found: dict[str, float] = {}
    for match in _WHOLE.finditer(line) if _ANY.search(line) else ():
        if _GOES_ON.match(line, match.end()) or _PARTS.search(line) is not None:
            continue
        value = _seconds(*match.groups()[-5:])
        what = match["what"].lower()
        name = TRAINING_S if what.startswith("train") else EPOCH_S if what == "epoch" else EVALUATION_S
        found.setdefault(name, value)
    if not found and (took := _THIS_EPOCH.search(line)) is not None and not _GOES_ON.match(line, took.end()):
        return {EPOCH_S: _seconds(*took.groups())}
    loss = line.lower().find("loss") if not found else -1
    if (
        loss >= 0
        and _EPOCH.match(line)
        and (took := _EPOCH_TOOK.search(line, loss)) is not None
        and (took[3] or took[5])
        and not (_GOES_ON.match(line, took.end()) or int(took[1] or 0) >= OF_DAY)
    ):
        hours, minutes, seconds, number, unit = took.groups()
        found[EVALUATION_S if EVALUATION.match(line) else EPOCH_S] = _seconds(hours, minutes, seconds, number, unit)
    if not found and loss >= 0 and _EPOCH.match(line) and (alone := _alone(line, loss)) is not None:
        found[EVALUATION_S if EVALUATION.match(line) else EPOCH_S] = alone
    if not found and (both := _BOTH.search(line)) is not None:
        found[TRAINING_S] = float(both[1]) * _UNITS[both[2].lower()]
        found[EVALUATION_S] = float(both[3]) * _UNITS[both[4].lower()]
    return found


def _alone(line: str, after: int) -> float | None:
    """Return the only time without a name in a line, in seconds, if it follows ``after``; else None."""
    times = list(_LONE_S.finditer(line))
    if _OF_BATCH.search(_COUNTED.sub("", line[:after])) is not None:
        return None
    if len(times) != 1 or times[0].start() < after or _NAMED_BEFORE_IT.search(line, 0, times[0].start()) is not None:
        return None
    return float(times[0][1])


def _seconds(hours: str | None, minutes: str, seconds: str, number: str | None, unit: str | None) -> float:
    """Return the seconds of a match of ``_CLOCK``."""
    if number is not None:
        return float(number) * _UNITS[unit.lower() if unit and unit.lower() == "ms" else (unit or "s")[0].lower()]
    return int(hours or 0) * 3600.0 + int(minutes) * 60.0 + float(seconds)


def _add(found: dict[str, float], unit: str, value: float) -> None:
    name = f"{_NAMES.get(unit[:3].lower(), 'samples')}_per_sec"
    if value > 0:
        found.setdefault(name, value)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _inverse(seconds: float) -> float:
    return 1.0 / seconds if seconds > 0 else 0.0
