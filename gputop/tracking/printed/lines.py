"""Metrics from one printed line, for programs without a journal; shown with the label "from the log". Pure.

``parse`` takes a line and returns its contents, or None. It accepts a line only if a measured quantity (a loss, an accuracy …)
appears in it as a name with a number; it ignores settings (``lr=0.1`` on its own, ``Namespace(…)``) and prose. Supported
formats, together with ``tables`` and ``transcript``: JSON lines, the dictionaries of the Hugging Face Trainer, tqdm's and
Lightning's bars, Keras, Megatron, torchvision's and PyTorch's examples, XGBoost, LightGBM, the tables of skorch, fastai, YOLO
and Stable-Baselines3, CSV, and ``name: number`` in any order. A number with "%" keeps its value, and its name gets ``PERCENT``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gputop.tracking.printed.counts import BAR, ENDLESS_BAR, counts, evaluation_of
from gputop.tracking.printed.forms import in_usual_form, of_darknet, of_tf_cnn
from gputop.tracking.printed.names import (
    ALSO,
    ANY_MEASURED,
    NAME_CHARACTERS,
    NUMBER,
    PERCENT,
    Printed,
    is_measured,
    lower,
    of_evaluation,
)
from gputop.tracking.printed.sides import each_named, full, sections, with_points
from gputop.tracking.printed.tables import boosting
from gputop.tracking.printed.wordings import in_pairs

LINE_CHARACTERS = 4000
"""Only this much of a line is parsed: progress lines are short."""
SOURCE = "log"
"""The fact ``source`` of a run whose values were printed."""

# Repeats have bounds: a search is linear in the length of the line, which a training may be waiting to print.
# Not part of a date, a range, a fraction, a version, or a number with another decimal separator.
_END = r"(?![\w/]|[.,:]\d|-\d|\s{0,9}\*)"
_PAIR = re.compile(
    rf"(?<![\w./@-])([A-Za-z][\w/.@-]{{0,99}})[\"']?((?: ?\([A-Za-z]{{1,20}}\))?\s{{0,60}}[:=]\s{{0,60}}|\s{{1,60}})"
    rf"(?:(?:tensor|(?:np\.|numpy\.)?float\d\d)\(\s{{0,9}})?({NUMBER}){_END}",
    re.IGNORECASE,
)
_BEFORE = re.compile(r"(?<![\w/.])([A-Za-z]{1,30}(?:[ _]function)?)[ _-]$")
_BEFORE_LOSS = re.compile(r"(?<![\w/.@-])([A-Za-z]\w{0,28}_(?!(?:step|iter|epoch|batch|idx|id)s?\b)[A-Za-z]{1,29}) $")
"""A name of several parts before a loss, such as an agent's: "l2_actor loss: 0.5". A number at its end counts something."""
_SPREAD = re.compile(
    r"(?<![A-Za-z])(?:std|stddev|stdev|sd|deviation|variance|var|min(?:imum)?|max(?:imum)?)\.? of (?:the )?$", re.IGNORECASE
)
"""What follows is no value of the run itself: "Std of Reward"."""
_SPREAD_PAIR = re.compile(rf"\bstd\.? (?:reward|return|score|loss|accuracy)s?\s?[:=]\s?{NUMBER}", re.IGNORECASE)
"""The same without "of": "std reward: 0.5"."""
_NO_NUMBERS = ("nan", "inf", "infinity")
# A loss that is followed by its step and only then by its value; Keras' guides print "(for one batch)" in between.
_AT = re.compile(
    r"(?<!\w)(\w{0,99}(?:loss|acc|accuracy|perplexity|reward|return))(?: \([^()]{0,40}\))?"
    r" (?:at|after|for|in) ((?:step|iteration|iter|epoch) \d{1,15})(?=\s{0,9}(?:[:=]|is\b))",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"(?:\[? ?(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?|(?:[a-z]{3} ){2} ?\d{1,2} \d\d:\d\d:\d\d \d{4}))?"
    r"\W{0,80}(?:(?:starting|start|train|training) )?epoch(?:s(?=[^/]{0,60}?\d\s{0,20}(?:/|of)))?"
    r"\s{0,20}[:=#]?\s{0,20}\[?\d{1,15}"
    rf"(?:\s{{0,20}}(?:/|of|\|)\s{{0,20}}\d{{1,15}})?\]?(?:[\s|,]{{1,9}}lr\s{{0,3}}[:=]\s{{0,3}}{NUMBER})?\W{{0,80}}",
    re.IGNORECASE,
)
"""The number of an epoch, on a line of its own but for the time and the learning rate. "epochs: 4" is a setting, but "Epochs:
4/10" is such a number.
"""
_GLUED = re.compile(r"\[\d{1,9}:\d\d[^\[\]]{0,600}\](?=[\w{(])")
"""The end of a bar, to which another line was printed without a line break."""
_KINDS_OF_LOSS = re.compile(r"\bloss (train): ([^\s,]{1,40}), (val): (?=[^\s,])")
"""LitGPT names the loss once for both of its values."""
_OF_CYCLEGAN = re.compile(r"^[(\[](?:epoch: \d{1,9}, )?iters: \d{1,15}, time: [\d.]{1,20}(?:, data: [\d.]{1,20})?[)\]]\s")
"""What CycleGAN and pix2pix, and the many scripts that began as a copy of them, print before their losses: "G_GAN: 1.2"."""
_NAMED = re.compile(r"(?<!\S)(?=\w{1,60}: [-+\d.])")
_LOSS_VALUE = re.compile(r"(?<=loss) value(?=\s{0,9}[:=])", re.IGNORECASE)
_ALONE = re.compile(rf"(?<=[:=])\[ {{0,9}}({NUMBER}) {{0,9}}\](?!\w)", re.IGNORECASE)
"""An array of one number, as older versions of Gymnasium have their returns."""
_OVER_SO_MANY = re.compile(r"(?<=[a-z])\(\d{1,6}\)(?=[\s:=]{1,20}[-+]?\d)")
"""How many values a mean is over: "mean_return(100) 1.66"."""
_OF_ALL = re.compile(r"(?<=[Aa]ccuracy)([\s:=]{1,3})(\d{1,12}) ?/ ?(\d{1,12}) ?\(\d{1,3}(?:\.\d{1,9})?%\)")
"""How many were right of how many, as PyTorch's example on MNIST prints it: "Accuracy: 9123/10000 (91%)"."""
_SUM = re.compile(
    rf"(?<![\w/.@-])total(?=[\s:=]{{1,4}}{NUMBER}(?:$|[,|;]|\s(?!(?:m?s|sec|secs|seconds|min|minutes|h)\b)))", re.IGNORECASE
)
"""The sum of the losses next to it, unless parts of the time come before it."""
_OF_TIME = re.compile(r"(?<![A-Za-z])(?:data|time|load|fwd|bwd|forward|backward)(?![A-Za-z])", re.IGNORECASE)
_EPISODE = re.compile(r"(?<![A-Za-z])ep(isodes?|s)?[\s:=#_]{0,9}\[?\d", re.IGNORECASE)
"""A line that counts episodes, or epochs where they are abbreviated."""
_OF_EPISODE = re.compile(r"(?<![\w/.])(?:(?i:(score|return)s?|ret)|R(?=\s{0,9}[:=]))(?=\s{0,60}[:=]?\s{0,60}[-+]?\.?\d)")
_RECALL = re.compile(r"(?<![\w/.])(?:P|F1|[Pp]rec\w{0,9})(?!\w)")
_OVER_EPISODES = re.compile(
    r"(score|return|reward)(s?)(?: \((?:last |over )?(?:the )?(?:last )?\d{1,9}(?: \w{1,20}\.?)?\)"
    r"| (?:over|of|across|in) (?:the )?(?:last |past )?\d{1,9} \w{1,20})(?=\s{0,9}[:=]|\s{1,4}[-+]?\d)",
    re.IGNORECASE,
)
_MEAN_REWARD = re.compile(r"(?<![\w/])(mean|average|avg) (reward|return)(?=\s{0,9}[:=]|\s{1,4}[-+]?\d)", re.IGNORECASE)
"""What is said of the mean is lost with the word: that it varies less."""
_MEAN = re.compile(r"(?<![\w/])avg\. ", re.IGNORECASE)
_PROGRESS = re.compile(r"\|(?:[█▉▊▋▌▍▎▏#━]|\s{0,400}(?:$|\|))|\s{1,3}\d{1,15}/\d{1,15} \[\d{1,9}:")
"""What follows the percentage of a progress bar: the bar, or only the count."""
_BEST = re.compile(
    r"(?<![\w/.@-])(?:(?<!new )|(?=[a-z]{4,7} ema ))(?:best|highest|lowest|max(?:imum)?(?= (?:[a-z]{1,12} )?acc))"
    r"(?:(?: (?:so far|ever|overall|results?|scores?))?\s?[:=]\s{0,3}(?=[a-z])[^|;)\]]{0,300}|"
    r"(?: (?!epoch|step|iter|model|checkpoint|ckpt|weight|sav|with\b|at\b|and\b)[a-z][\w@/.-]{0,30}){1,4}?"
    rf"\s{{0,9}}[:=]?\s{{0,9}}{NUMBER}%?"
    r"(?:[\s,]{0,3}\(?(?:at |@ ?|in |from )?(?:epoch|step|iter\w{0,6})[ :=]{1,3}\d{1,15}\)?)?)",
    re.IGNORECASE,
)
"""What is said to be the best so far, with the epoch that had it: "best val acc 0.9 (epoch 4)". "New best" is of now."""
_FIRST_BEST = re.compile(
    r"\W{0,9}(?:max|best)_(?:[a-z]{2,9}_)?(acc|accuracy|f1|auc)\s?[:=](?!.{0,300}(?<![a-z_])\1\s?[:=])", re.IGNORECASE
)
_OF_NOW = re.compile(r"loss|epoch|step|iter|(?:max|best)_.{1,90}(?:max|best)_|test|val|train", re.IGNORECASE)
"""Without these, the scores behind the first one of a line are also the best ones: "max_acc: 0.9, f1: 0.8"."""
_BESTS = ("best", "highest", "lowest", "max")
_OF_BEST = re.compile(
    r"(?<![\w/.@-])(?<!new )(?:best|highest|lowest)(?: (?!model|checkpoint|ckpt|weight)[a-z]{1,20}){0,3}\s?[:=]?\s{0,3}$",
    re.IGNORECASE,
)
"""Before a dictionary of the best values."""
_TASK = re.compile(r"(?<![\w/])task ?: ?\[((?:, )?'[\w -]{1,40}'(?:, '[\w -]{1,40}'){0,19})\], (?=[a-z_]{0,20}loss: )")
_QUOTED = re.compile(r"'([^']{1,40})'")
"""The classes of one of several heads, whose losses Det3D and CenterPoint print in a line for each."""
_BEFORE_CHARACTERS = 80
_WIDE = str.maketrans("：，＝（）／；｜［］‘’“”", ":,=()/;|[]''\"\"")
"""The punctuation of Chinese and Japanese keyboards, and the quotes that a forum makes of plain ones."""
_OF_EPOCH_AND_BATCH = re.compile(
    r"(?<!\w)((?:train |training )?loss)(?: \[(\d{1,9}), {0,9}(\d{1,9})\] ?\(epoch, (?:mini)?batch\)|"
    r" of epoch ?(\d{1,9})[ ,-]{1,3}batch[ -]?(\d{1,9}))(?=\s{0,3}[:=])",
    re.IGNORECASE,
)
"""A loss, and its epoch and batch before the value: "Loss [1, 100](epoch, minibatch): 2.5", "loss of epoch1-batch-100: 2.5"."""
_DECIBELS = re.compile(rf"(?<![\w/])(psnr|test|val(?:id(?:ation)?)?)([\s:=]{{1,4}}{NUMBER}) ?dB(?![A-Za-z])", re.IGNORECASE)
_CALL = re.compile(r"\b[A-Za-z_]\w{0,99}\(\w{1,99}\s{0,9}=")
# Words before a name that add nothing to it; then words after which it is not a metric.
_NEUTRAL = frozenset(
    [
        *("the", "a", "with", "and", "current", "cur", "its", "has", "at", "got"),
        *("batch", "iter", "step", "mean", "average", "avg", "is", "of", "loss"),
        *("info", "debug", "warning", "warn", "notice"),
    ]
)
_NO_METRIC = frozenset(["packet", "data", "stop", "weight", "frame", "signal", "heat", "power", "hearing", "profit", "no"])
_NO_NAMES = frozenset(["time", "timestamp", "ts", "pid", "v_num", "level", "line", "port", "size", "percentage"])
_OF_PACE = re.compile(r"(?i)(?:.{0,60}/s(?:ec(?:ond)?)?|s(?:ec)?/[a-z]{1,12}|wps|ups|wpb|bsz|batch_size|(?:acc|cur)_iter)")
"""How fast a bar's training is, which ``rates`` reads: "it/s=3.5". Fairseq shortens the words and updates per second, the words
per batch, and the size of a batch. Nor are other counts next to a bar metrics."""
_BEFORE_UPDATES = re.compile(r"(?<![\w/])num_updates=0(?![\d.])")
"""Fairseq's meters are empty until the first update, and show a loss of 0."""
_MESSAGES = ("message", "msg", "log", "event")
"""The keys under which loggers and container engines keep a line of text."""
_STEPS = ("step", "global_step", "iteration", "iter", "num_updates", "current_steps", "_step", "steps")
_STEP_AND_TOTAL, _STEP_OF = "global_step/max_steps", re.compile(r"(\d{1,15})/(\d{1,15})")
"""Both counts in one, as ms-swift has them."""
_OF_MMCV = "iter"
"""In MMCV's line of an evaluation, the number of its own batches."""
_NAMES = ("name", "metric", "metric_name", "key", "tag")
_VALUES = ("value", "metric_value", "scalar")
"""The keys of a record of one metric: its name, and its value."""
_SPLITS = ("split", "mode", "phase", "stage", "subset")
_TRAINING = ("train_", "training_")
"""Begins the names of the training's values, also on a line that names an evaluation first."""
_NAMED_SIDES = {"validation": "v", "val": "v", "valid": "v", "evaluation": "e", "eval": "e"}
"""The sides that a record's "name" can mean, which then counts their own batches. A run's name may be "test"."""
_UPDATES = "_num_updates"
"""Ends the names of the same count in Fairseq's summaries of an epoch."""
_EPISODES = frozenset(("episode", "episodes", "ep", "i_episode", "num_episodes", "n_episodes"))
_RETURNS = {"score": "episode_score", "return": "episode_return", "ret": "episode_return", "avg_score": "avg_episode_score"}
_TOTAL = "total_steps"
_COUNTS = frozenset((_TOTAL, "epoch", "epochs", "batch"))


def parse(line: str) -> Printed | None:
    """Return the training progress that a line reports; None for any other line. Never raises."""
    line = line[:LINE_CHARACTERS]
    if not line.isascii():
        line = line.translate(_WIDE)
    line = in_pairs(line)
    listed = boosting(line)
    if listed is not None:
        return listed
    if _HEADING.fullmatch(line):
        epoch = counts(line, evaluation=True)
        return epoch if epoch.epoch is not None else None
    line = in_usual_form(line)
    darknet = of_darknet(line)
    if darknet is not None:
        return darknet if darknet.metrics else None
    if (benchmark := of_tf_cnn(line)) is not None:
        return benchmark
    if not ANY_MEASURED.search(line):
        return None
    start, end = line.find("{"), line.rfind("}")
    if 0 <= start < end:
        entries = _dictionary(line[start : end + 1])
        found = _from_dictionary(entries, line[:start]) if entries else None
        rest = f"{line[:start]} {line[end + 1 :]}"
        if found is not None or not entries or not ANY_MEASURED.search(rest):
            return found
        line = rest  # the dictionary says something else: "step 15 loss 0.526 labels: {'joy': 32}"
    glued = _GLUED.search(line) if "]" in line and "[" in line else None
    if glued is not None:
        if (of_bar := _from_text(line[: glued.end()])) is not None:
            return of_bar
        behind = _from_text(line[glued.end() :])
        if behind is not None and behind.step is not None:
            return behind
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
    import ast  # few outputs need it

    return ast.literal_eval(re.sub(r"(?<=: )(-?)(nan|inf)(?=[,}])", r"'\1\2'", text))


def _flat(data: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}/")
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            number = _float(value)
            if number is not None:
                yield f"{prefix}{key}", number


def _from_dictionary(data: dict[str, Any], before: str) -> Printed | None:
    """Return the contents of a dictionary, and of the text ``before`` it."""
    if _OF_BEST.search(before[-_BEFORE_CHARACTERS:]):
        return None
    data = _of_one_metric(data)
    values = dict(_flat(data))
    if not _EPISODES.isdisjoint(values):
        values = {_RETURNS.get(name.lower(), name): value for name, value in values.items()}
    of_name = _NAMED_SIDES.get(str(data.get("name")))
    kind = evaluation_of(before) or _split_of(data) or of_name
    metrics = {name: value for name, value in values.items() if not _is_counter(name) and _may_be_metric(name)}
    if not any(is_measured(name) for name in metrics):
        text = next((text for name in _MESSAGES if isinstance(text := data.get(name), str)), "")
        return _from_text(text[:LINE_CHARACTERS]) if ANY_MEASURED.search(text) and not _CALL.search(text) else None
    if kind is not None:
        metrics = {of_evaluation(name, kind): value for name, value in metrics.items()}
    metrics = {full(name): value for name, value in metrics.items()}
    said = counts(before, evaluation=kind is not None)
    step = _step_in(values, evaluation=kind is not None) if of_name is None else None
    steps = _count(values.get(_TOTAL))
    of_so_many = _STEP_OF.fullmatch(str(data.get(_STEP_AND_TOTAL, "")))
    if step is None and of_so_many is not None:
        step, steps = int(of_so_many[1]), int(of_so_many[2])
    step = said.step if step is None else step
    epoch = values.get("epoch")
    return replace(
        said,
        metrics=metrics,
        step=step,
        steps=said.steps if steps is None else steps,
        epoch=epoch if epoch is not None and math.isfinite(epoch) else said.epoch,
    )


def _of_one_metric(data: dict[str, Any]) -> dict[str, Any]:
    """Return a record of one metric, ``{"name": "loss", "value": 0.5, "step": 3}``, as ``{"loss": 0.5, "step": 3}``."""
    name = next((key for key in _NAMES if isinstance(data.get(key), str)), None)
    value = next((key for key in _VALUES if isinstance(data.get(key), int | float)), None)
    if name is None or value is None or not is_measured(data[name]):
        return data
    rest = {key: said for key, said in data.items() if key in (*_STEPS, *_COUNTS, *_SPLITS)}
    return {data[name]: data[value], **rest}


def _step_in(values: Mapping[str, float], *, evaluation: bool) -> int | None:
    """Return the step in a dictionary: under a name of its own before one below the name of a split or a trainer."""
    names = [*_STEPS, *(name for name in values if _is_counter(name) and name.lower() not in _COUNTS)]
    found = ((name, values.get(name)) for name in names if not evaluation or name != _OF_MMCV)
    return next((count for _, value in found if (count := _count(value)) is not None), None)


def _split_of(data: Mapping[Any, Any]) -> str | None:
    """Return the first letter of the evaluation that a dictionary names: ``"split": "val"``."""
    named = next((value for key in _SPLITS if isinstance(value := data.get(key), str)), "")
    return evaluation_of(named[:NAME_CHARACTERS])


def _count(value: float | None) -> int | None:
    """Return a whole number as one; None for any other value."""
    return int(value) if value is not None and math.isfinite(value) and value == int(value) else None


def _may_be_metric(name: str) -> bool:
    return name.lower() not in _NO_NAMES and not name.startswith("_")  # "_timestamp" and the like of W&B


def _is_counter(name: str) -> bool:
    first, _, last = name.lower().rpartition("/")
    return (last in _STEPS and first != "time") or name.lower() in _COUNTS or name.endswith(_UPDATES)


def _from_text(line: str) -> Printed | None:
    if "num_updates=0" in line and _BEFORE_UPDATES.search(line):
        return None
    lower_case = line.lower()
    if any(word in lower_case for word in _BESTS):
        if _FIRST_BEST.match(line) and not _OF_NOW.search(line) and len(_PAIR.findall(line)) > 1:
            return None
        line = _BEST.sub("", line)
    at = _AT.search(line)
    if at is not None:
        line = f"{at[2]}, {line[: at.start()]}{at[1]}{line[at.end() :]}"
    if "loss train:" in line:
        line = _KINDS_OF_LOSS.sub(r"\1_loss: \2, \3_loss: ", line)
    if "batch" in lower_case and (both := _OF_EPOCH_AND_BATCH.search(line)) is not None:
        epoch, batch = both.group(2, 3) if both[2] else both.group(4, 5)
        line = f"[{epoch}, {batch}] {both[1]}{line[both.end() :]}"
    if "psnr" in lower_case and "dB" in line:
        line = _DECIBELS.sub(lambda found: f"{found[1].lower()}{'' if found[1].lower() == 'psnr' else '_psnr'}{found[2]}", line)
    head = _OF_CYCLEGAN.match(line)
    if head is not None:
        line = head[0] + _NAMED.sub("loss_", line[head.end() :])
    if " value" in line:
        line = _LOSS_VALUE.sub("", line)
    if "=[" in line or ":[" in line:
        line = _ALONE.sub(r"\1", line)
    if "(" in line:
        line = _OVER_SO_MANY.sub("", line)
    if "std" in lower_case:
        line = _SPREAD_PAIR.sub("", line)
    if "%)" in line:
        line = _OF_ALL.sub(_right_of_all, line)
    if "," in line:
        line = with_points(line)
    if line.count("loss") > 1 and "total" in line:
        total = _SUM.search(line)
        if total is not None and _OF_TIME.search(line, 0, total.start()) is None:
            line = f"{line[: total.end()]}_loss{line[total.end() :]}"
    line = each_named(_of_episodes(line))
    bar = BAR.search(line) or ENDLESS_BAR.search(line)
    whole = evaluation_of(line)
    parts = sections(line) if whole is None else []
    metrics: dict[str, float] = {}
    kinds = set()
    for match in _PAIR.finditer(line):
        percent = line[match.end() : match.end() + 1] == "%"
        behind = match.end() + 1
        if percent and ((bar is not None and line.startswith("|", behind)) or _PROGRESS.match(line, behind)):
            continue  # the bar's progress, after its heading: "Map:  5%|"
        name = _name(line, match, every=bar is not None, percent=percent)
        if name is None or (name in metrics and not parts):
            continue
        kind = next((kind for start, kind in reversed(parts) if start <= match.start()), whole)
        if not ALSO.search(name):
            kinds.add(kind)
        name = full(of_evaluation(name, kind) if kind is not None and not name.startswith(_TRAINING) else name)
        metrics.setdefault(f"{name}{PERCENT}" if percent else name, float(match[3]))
    if not any(is_measured(name) for name in metrics):
        return None
    task = _TASK.search(line) if "task" in lower_case else None
    if task is not None:
        metrics = {f"{name}/{'_'.join(_QUOTED.findall(task[1]))}": value for name, value in metrics.items()}
    return replace(counts(line, evaluation=bool(kinds) and None not in kinds), metrics=metrics)


def _right_of_all(found: re.Match[str]) -> str:
    right, of_all = int(found[2]), int(found[3])
    return f"{found[1]}{100 * right / of_all:.6g}%" if of_all else found[0]


def _of_episodes(line: str) -> str:
    """Return a line with the returns of episodes under names that say so, if it counts episodes.

    The word alone means little: a classifier has a score, too, and "R" may be its recall.
    """
    line = _OVER_EPISODES.sub(r"\1\2", _MEAN.sub("avg ", line))
    line = _MEAN_REWARD.sub(lambda found: f"{found[1]}_{found[2]}".lower(), line)
    counted = _EPISODE.search(line)
    if counted is None:
        return line

    def named(match: re.Match[str]) -> str:
        if (match[1] or "").lower() == "score":
            return "episode_score" if len(counted[1] or "") > 1 else match[0]
        return match[0] if match[0] == "R" and _RECALL.search(line) else "episode_return"

    return _OF_EPISODE.sub(named, line)


def _name(line: str, match: re.Match[str], every: bool, percent: bool) -> str | None:
    """Return the metric's name with the word before it, or None if it is no metric. ``every``: all pairs count (a bar)."""
    name, separator = match[1].rstrip("."), match[2].strip()[-1:]
    before = _BEFORE.search(line, max(0, match.start() - 31), match.start())
    inside = match[2].strip("():= \t").lower()  # "loss (val): 0.5"
    word = inside if inside in _PREFIXES else before[1].lower() if before else ""
    word = "" if word in _NO_NUMBERS else word.replace(" ", "_")
    if is_measured(name):
        if word in ("of", "the") and _SPREAD.search(line, max(0, match.start() - 31), match.start()):
            return None
        if (
            separator
            and name.lower() == "loss"
            and (of := _BEFORE_LOSS.search(line, max(0, match.start() - 61), match.start()))
        ):
            joined = of[1].lower()
            return joined if joined.endswith("_loss") else f"{joined}_loss"
        if word in _NO_METRIC:
            return None
        if not separator and (name.lower() != "loss" and not name[-1].isdigit() and word not in _PREFIXES):
            text = match[3].lower()
            measures = percent or "." in text or "e" in text or "n" in text  # also nan and inf
            return lower(name) if measures else None
        known = word in _PREFIXES or (separator and word and word not in _NEUTRAL)
        return f"{word}_{name.lower()}" if known else lower(name)
    joined = f"{word}_{name}".lower() if word else name.lower()
    for candidate in (joined, name.lower()):
        if ALSO.search(candidate):
            return candidate
    if every and separator == "=" and word != "in" and name.lower() not in _NO_NAMES and not _is_counter(name):
        return name if _OF_PACE.fullmatch(name) is None else None
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
        "contrastive",
        "final",
        "best",
    ]
)


def _float(value: int | float | str) -> float | None:
    if isinstance(value, str) and not re.fullmatch(NUMBER, value.strip(), re.IGNORECASE):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
