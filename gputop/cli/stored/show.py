"""``gputop runs show``: everything that a run has recorded, as text or as one JSON object."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, TypeVar

from gputop import units
from gputop.cli.stored.shelf import Shelf, points_of
from gputop.facts.memory_text import memory_lines
from gputop.facts.record import Record
from gputop.facts.standing import Error
from gputop.facts.table import Facts
from gputop.snapshot import Points, Rank, Run, encode, loss_metric
from gputop.terminal_text import printable, table
from gputop.tracking.journal.format import PHASE
from gputop.tracking.reader.rank_log import Text
from gputop.tui.drawing.bars import sparkline

READ_POINTS = 2000
"""Points to read of each metric and rank, including the smallest and largest."""
CURVE_COLUMNS = 24
CONFIG_LINES = 15
"""Entries of the configuration that are shown on a terminal without ``--all``."""
NONE = "-"
_T = TypeVar("_T")
_SMALL_IS_BEST = re.compile(
    r"loss|error|perplexity|(?<![a-z])(?:err|ppl|nll|r?mse|mae|wer|cer|fid|bpb|bpc)(?![a-z])", re.IGNORECASE
)
_LARGE_IS_BEST = re.compile(
    r"accuracy|top\d|bleu|rouge|iou|reward|return|precision|recall|auroc"
    r"|(?<![a-z])(?:acc|f1|auc|m?ap|psnr|ssim)(?![a-z])",
    re.IGNORECASE,
)
"""Short names count only as whole words: "power" has no word error rate, and "confidence" no FID."""
_NEXT_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NO_AIM = re.compile(r"scale|weight|time|_s$|^phase/", re.IGNORECASE)


@dataclass(slots=True)
class Metric:
    """One metric of a run. ``last`` is the mean over the ranks; ``best`` and ``best_step`` are None unless it is known whether
    lower or higher is better."""

    goal: str | None = None
    """"min" or "max": as the script defined it, else by the name; None if neither says."""
    last: float | None = None
    last_step: int | None = None
    best: float | None = None
    best_step: int | None = None
    ranks: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    """Rank -> (step, value)."""


def show(shelf: Shelf, run: Run, found: Iterable[Points], *, as_json: bool, everything: bool) -> str:
    """Return one run: what it is, its metrics, what it said, its ranks, and its configuration.

    On a terminal the configuration is shortened, unless ``everything``.
    """
    metrics = _metrics(run, found)
    tags, texts = list(run.tags), shelf.reader.texts(run.run_id)
    if as_json:
        return json.dumps(_record(run, metrics, tags, texts))
    uncut = everything or not sys.stdout.isatty()
    return "\n".join(map(printable, show_lines(run, metrics, tags, texts, None if uncut else CONFIG_LINES)))


def show_lines(
    run: Run,
    metrics: Mapping[str, Metric],
    tags: Sequence[str] = (),
    texts: Sequence[tuple[int, Text]] = (),
    config_lines: int | None = None,
) -> list[str]:
    """Return the lines of one run; of its configuration, at most this many entries if a number is given."""
    at = f"  step {units.count(run.step)}" if run.step is not None else ""
    lines = [f"{run.name}  {run.run_id}  {run.state}{at}"]
    labels = (("project", run.project), ("group", _fact(run, lambda facts: facts.group)), ("tags", ", ".join(tags)))
    lines += _row([f"{name}: {value}" for name, value in labels if value])
    lines += [f"notes: {notes}"] if (notes := _fact(run, lambda facts: facts.notes)) else []
    lines += [f"command: {' '.join(run.command)}"] if run.command else []
    took = run.ended_at - run.created_at if run.ended_at and run.created_at else None
    lines.append(f"started: {units.clock(run.created_at, '%Y-%m-%d %H:%M:%S')}, took {units.duration(took)}")
    if metrics:
        lines += [f"curve: {_origin(run)}", "", *_metric_table(metrics)]
    summary = _json_of(_fact(run, lambda facts: facts.summary))
    if isinstance(summary, Mapping) and summary:
        lines += ["", *(f"summary: {name} = {json.dumps(encode(value))}" for name, value in summary.items())]
    if texts:
        lines += ["", *(_text_line(rank, text, len(run.ranks)) for rank, text in texts)]
    lines.append("")
    for rank in run.ranks:
        values = "  ".join(f"{name} {units.metric(value)}" for name, value in rank.metrics.items())
        code = f", exit code {rank.exit_code}" if rank.exit_code else ""
        pid = units.UNKNOWN if rank.pid is None else rank.pid
        place = f" on {rank.hostname}" if rank.elsewhere and rank.hostname is not None else ""
        where = f"pid {pid}{place}, {_state(rank)}{code}, step {units.count(rank.step)}"
        # With a single rank, the table has its values already.
        lines.append(f"rank {rank.rank} ({where})" + (f": {values or 'nothing logged'}" if len(run.ranks) > 1 else ""))
        lines += _error_line(Facts(rank.facts).error)
        lines += [f"  {text}" for text in memory_lines(rank.facts)]
        lines += [f"  could not be collected: {what}" for what in Facts(rank.facts).uncollected or ()]
    return lines + _config_lines(run, config_lines)


def _state(rank: Rank) -> str:
    if rank.state != "unheard" or rank.last_log_at is None:
        return rank.state
    return f"unheard for {units.duration(max(0.0, time.time() - rank.last_log_at))}"


def _error_line(error: Error | None) -> list[str]:
    """Return what ended a rank: the exception, and where in the script it was raised."""
    if error is None:
        return []
    return [f"  {error.type or ''}: {error.message or ''}" + (f" ({error.where})" if error.where else "")]


def _config_lines(run: Run, most: int | None) -> list[str]:
    if not run.config:
        return []
    shown = [f"  {name} = {json.dumps(encode(value))}" for name, value in islice(run.config.items(), most)]
    left = len(run.config) - len(shown)
    return ["", "config:", *shown, *([f"  … {left} more: gputop runs show {run.run_id} --all"] if left else [])]


def _metrics(run: Run, found: Iterable[Points]) -> dict[str, Metric]:
    defined: dict[str, str | None] = {}
    for rank in run.ranks:
        defined |= {name: stated.goal for name, stated in (Facts(rank.facts).metrics or {}).items()}
    result: dict[str, Metric] = {}
    for points in found:
        metric = result.setdefault(points.metric, Metric(_goal(points.metric, defined.get(points.metric))))
        metric.ranks.setdefault(points.rank, []).extend(zip(points.steps, points.values, strict=True))
    for metric in result.values():
        lasts = [series[-1] for series in metric.ranks.values()]
        metric.last, metric.last_step = units.mean([value for _, value in lasts]), max(step for step, _ in lasts)
        every = [(value, step) for series in metric.ranks.values() for step, value in series if value == value]
        if metric.goal is not None and every:
            metric.best, metric.best_step = (min if metric.goal == "min" else max)(every, key=lambda item: item[0])
    loss = loss_metric(result)
    return dict(sorted(result.items(), key=lambda item: (item[0] != loss, item[0].startswith(PHASE), item[0])))


def _goal(name: str, defined: str | None) -> str | None:
    if defined in ("min", "max"):
        return defined
    if _NO_AIM.search(name):
        return None
    spaced = f"{name} {_NEXT_WORD.sub('_', name)}"  # valAcc: also as val_Acc
    return "min" if _SMALL_IS_BEST.search(spaced) else "max" if _LARGE_IS_BEST.search(spaced) else None


def _metric_table(metrics: Mapping[str, Metric]) -> list[str]:
    rows = [
        (
            name,
            units.metric(metric.last),
            NONE if metric.best is None else units.metric(metric.best),
            NONE if metric.best_step is None else str(metric.best_step),
            _curve(metric.ranks[min(metric.ranks)]),
        )
        for name, metric in metrics.items()
    ]
    return table(("METRIC", "LAST", "BEST", "AT STEP", "CURVE"), rows)


def _curve(series: Sequence[tuple[int, float]]) -> str:
    """Return the values as one line of marks, each of which shows the mean of its part of the series."""
    values = [value for _, value in series if abs(value) < float("inf")]
    columns = min(CURVE_COLUMNS, len(values))
    parts = [values[len(values) * n // columns : len(values) * (n + 1) // columns] for n in range(columns)]
    means = [units.mean(part) for part in parts]
    low, high = min(means, default=0.0), max(means, default=0.0)
    encoding = sys.stdout.encoding or "ascii"
    ascii_only = not encoding.lower().startswith("utf")
    if not high - low < float("inf"):
        return ""
    return sparkline([mean - low for mean in means], (high - low) or 1.0, ascii_only)


def _record(run: Run, metrics: Mapping[str, Metric], tags: list[str], texts: Sequence[tuple[int, Text]]) -> dict[str, Any]:
    numbers = {
        name: {
            "goal": metric.goal,
            "last": metric.last,
            "last_step": metric.last_step,
            "best": metric.best,
            "best_step": metric.best_step,
        }
        for name, metric in metrics.items()
    }
    more = {
        "step": run.step,
        "tags": tags,
        "group": _fact(run, lambda facts: facts.group),
        "job_type": _fact(run, lambda facts: facts.job_type),
        "notes": _fact(run, lambda facts: facts.notes),
        "summary": _json_of(_fact(run, lambda facts: facts.summary)),
        "alert": _json_of(_fact(run, lambda facts: facts.alert)),
        "source": _fact(run, lambda facts: facts.source),
        "metrics": numbers,
        "text": [{"rank": rank, **asdict(text)} for rank, text in texts],
    }
    return {**encode(run), **encode(more)}


def _origin(run: Run) -> str:
    source = _fact(run, lambda facts: facts.source)
    if source is not None:
        return "read from what the script printed" if source == "log" else f"read from {source}"
    return "recorded by automatic tracking" if _fact(run, lambda facts: facts.settings) else "what the script logged"


def _fact(run: Run, read: Callable[[Facts], _T | None]) -> _T | None:
    """Return the fact from the first rank that has it."""
    return next((fact for rank in run.ranks if (fact := read(Facts(rank.facts)))), None)


def _json_of(fact: Record | None) -> dict[str, Any] | None:
    return dict(fact.stated) if fact is not None else None


def own_tags(run: Run) -> list[str]:
    """Return the tags that the script gave the run."""
    return list(_fact(run, lambda facts: facts.tags) or ())


def _text_line(rank: int, text: Text, ranks: int) -> str:
    who = f"rank {rank} " if ranks > 1 else ""
    level = "" if text.level == "info" else f"{text.level}: "
    return f"{units.clock(text.time)} {who}{level}{text.message}"


def _row(parts: Sequence[str]) -> list[str]:
    return ["   ".join(parts)] if parts else []


def show_run(name: str, *, as_json: bool, everything: bool) -> str:
    """Return what ``show`` does for the run with this id, or the newest with this name.

    Raises:
        UsageError: there is no such run.
        GputopError: it cannot be read.
    """
    shelf = Shelf(backlog_points=READ_POINTS)
    update = shelf.poll()
    run = shelf.find(name, update.runs)
    found = list(points_of(shelf, update.points, run.run_id))
    newest = next((item for item in shelf.poll().runs if item.run_id == run.run_id), run)
    return show(shelf, newest, found, as_json=as_json, everything=everything)
