"""The training pane: the chosen run in a title and a line of numbers, its loss as a live chart. Pure, except for its cache."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gputop import units
from gputop.facts.table import Facts
from gputop.snapshot import ENDED_STATES, FAILED_STATES, Run, loss_metric
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.braille import ASCII_MARKS
from gputop.tui.drawing.line import Drawing, Line, Span, clean, clip, joined, line, wrap
from gputop.tui.drawing.line import width as width_of
from gputop.tui.drawing.loss import MAX_CURVES, LossChart
from gputop.tui.drawing.ranks import STATE_STYLES
from gputop.tui.drawing.run_panel import PANEL_CELLS, panel_lines, step_shares
from gputop.tui.state.view import View

CHART_MIN_LINES = 3
LEGEND_MIN_LINES = 5
PANEL_FROM_CELLS = 110
"""From this width on, the panel leaves the chart more than half."""

_GAP = Span("  ")
_NEXT = line(("n", "key"), (" next run", "dim"))


def draw_training(view: View, chart: LossChart, width: int, height: int) -> Drawing:
    """Return the training pane for ``width`` cells and ``height`` lines."""
    run = view.run
    if run is None:
        return Drawing(line(("Training", "title")), how_to_track(view, width))
    lines: list[Line] = [clip(_numbers(view, run, width), width)]
    trouble = _trouble(view, run)
    if trouble:
        lines.append(clip(trouble, width))
    room = height - len(lines)
    metric = loss_name(view.history.metrics(run.run_id))
    if metric is None:
        lines.extend(wrap("no metric yet: log one with run.log(loss=…)", width, "dim"))
    elif room >= CHART_MIN_LINES:
        legend = rank_legend(view, run, metric) if room > LEGEND_MIN_LINES else ()
        if legend:
            lines.append(clip(legend, width))
        lines.extend(_chart_and_panel(view, run, chart, metric, width, room - bool(legend)))
    return Drawing(
        title_line(view, run), tuple(lines), footer=_place(view, run), subtitle=_NEXT if len(view.snapshot.runs) > 1 else ()
    )


def _chart_and_panel(view: View, run: Run, chart: LossChart, metric: str, width: int, height: int) -> Sequence[Line]:
    """Return the chart, with the panel on its right in a pane that is wide enough for both."""
    panel = panel_lines(view, run, height) if width >= PANEL_FROM_CELLS else ()
    if not panel:
        return chart.draw(view, metric, width, height)
    left = chart.draw(view, metric, width - PANEL_CELLS - 2, height)
    beside = (*panel, *[()] * (height - len(panel)))
    return [(*part, Span("  "), *more) if more else part for part, more in zip(left, beside, strict=True)]


def how_to_track(view: View, width: int) -> tuple[Line, ...]:
    """Return what to show while there is no run: how to start tracking one, or why runs cannot be known."""
    if view.without_runs is not None:
        return tuple(wrap(clean(view.without_runs), width, "dim"))
    lines: tuple[Line, ...] = (
        *wrap("No run yet. Track one of your training scripts with three lines:", width, "text"),
        (),
        line(("  import gputop", "key")),
        line(('  run = gputop.init(name="my run")', "key")),
        line(("  run.log(loss=loss)", "key"), ("   in every step", "dim")),
        (),
        *wrap("Or without changing it: gputop run -- python train.py", width, "text"),
        *(() if view.remote is not None else wrap("Or press l to launch a demo.", width, "text")),
    )
    return tuple(clip(part, width) for part in lines)


def title_line(view: View, run: Run) -> Line:
    """Return "Training: name · 4 ranks · step 1240/5000 · 3m12s left"."""
    # Mark runs that the doctor's first finding is about, as in the GPU and process rows.
    mark = (Span("▸", "accent"),) if view.involves_run else ()
    parts = [line(("Training: ", "title"), *mark, (clean(run.name), "title"))]
    count = len(run.ranks) or run.world_size or 0
    if count > 1:
        some = _singled_out(view, run)
        parts.append(line((f"{count} ranks", "dim"), (f" ▸{units.ranges(some)}" if some else "", "accent")))
    if run.ranks and all(Facts(rank.facts).source == "log" for rank in run.ranks):
        parts.append(line(("from the log", "dim")))
    step, total = run.step, run_numbers.total_steps(run)
    if step is not None:
        counted = "line" if run_numbers.counts_lines(run) else "step"
        parts.append(line((f"{counted} {units.count(step)}" + (f"/{units.count(total)}" if total else ""), "text")))
    if run.state in ENDED_STATES:
        took = _took(run)
        after = f" after {units.duration(took)}" if took is not None else ""
        parts.append(line((run.state + after, STATE_STYLES[run.state])))
    elif run.state == "running":
        left = run_numbers.seconds_left(run, view.history)
        if left is not None and run_numbers.silent_s(run, view.history, view.snapshot.time) is None:
            parts.append(line((f"{units.coarse_duration(left)} left", "text")))
    else:
        parts.append(line((run.state, STATE_STYLES.get(run.state, "text"))))
    return joined(parts, Span(" · ", "dim"))


def rank_legend(view: View, run: Run, metric: str) -> Line:
    """Return which curve belongs to which rank, if each has its own; marks the ranks that the first finding is about."""
    ranks = sorted(view.history.metric(run.run_id, metric))
    if not view.settings.per_rank or not 1 < len(ranks) <= MAX_CURVES:
        return ()
    some = _singled_out(view, run)
    parts: list[Line] = []
    for place, rank in enumerate(ranks):
        sign = ASCII_MARKS[place % len(ASCII_MARKS)] if view.settings.ascii else "━"
        name = (f"▸rank {rank}", "accent") if rank in some else (f"rank {rank}", "dim")
        parts.append(line((sign, f"rank{rank % MAX_CURVES}"), " ", name))
    return joined(parts, Span("  "))


def _singled_out(view: View, run: Run) -> frozenset[int]:
    """Return the ranks that the doctor's first finding is about, unless it is about all of them."""
    some = view.involved_ranks
    return some if len(some) < len(run.ranks) else frozenset()


def _took(run: Run) -> float | None:
    if run.ended_at is None or run.created_at is None:
        return None
    return max(0.0, run.ended_at - run.created_at)


def _place(view: View, run: Run) -> Line:
    runs = view.snapshot.runs
    if len(runs) < 2:
        return ()
    place = next(index for index, other in enumerate(runs, 1) if other.run_id == run.run_id)
    return line((f"run {place} of {len(runs)}", "dim"))


def loss_name(metrics: Sequence[str]) -> str | None:
    """Return the metric that is the loss, else the first metric."""
    return loss_metric(metrics) or next(iter(metrics), None)


def values_of(run: Run, name: str) -> list[float]:
    """Return the latest value of a metric from every rank that has one."""
    return [rank.metrics[name] for rank in run.ranks if name in rank.metrics]


def mean_and_spread(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the mean over the ranks and the spread: half the distance from the smallest to the largest."""
    if not values:
        return None
    return units.mean(values), max(values) / 2 - min(values) / 2


def _numbers(view: View, run: Run, cells: int) -> Line:
    """Return the newest numbers; the last ones are left out if they do not fit, because a cut number is another number."""
    parts: list[Line] = []
    metric = loss_name(view.history.metrics(run.run_id)) or loss_name(
        list(dict.fromkeys(name for rank in run.ranks for name in rank.metrics))
    )
    if metric is not None:
        since = run_numbers.not_finite_since(run, view.history) if metric == run_numbers.loss_name(run) else None
        parts.append(_aggregated(metric, values_of(run, metric), view.settings.ascii, since))
    parts.extend(_throughput(view, run))
    shares = step_shares(run)
    data, communication = shares.get("data"), shares.get("wait")
    if data is not None:
        parts.append(line(("data ", "dim"), (f"{data * 100:.0f}%", "warn" if data > 0.2 else "text")))
    if communication is not None:
        parts.append(line(("wait ", "dim"), (f"{communication * 100:.0f}%", "text")))
    for name in ("training", "accuracy", "epoch", "lr"):
        value = run_numbers.latest(run, name)
        if value is not None:
            parts.append(line((f"{name} ", "dim"), units.metric(value)))
    while len(parts) > 1 and width_of(joined(parts, _GAP)) > cells:
        parts.pop()
    return joined(parts, _GAP)


def _aggregated(name: str, values: Sequence[float], ascii_only: bool, not_finite_since: int | None) -> Line:
    found = mean_and_spread(values)
    if found is None:
        return line((f"{clean(name)} ", "dim"), (units.UNKNOWN, "dim"))
    mean, spread = found
    style = "value" if math.isfinite(mean) else "bad"
    spans = [(f"{clean(name)} ", "dim"), (units.metric(mean, 3) if abs(mean) < 1 else units.metric(mean), style)]
    if not_finite_since is not None:
        spans.append((f" since step {units.count(not_finite_since)}", "bad"))
    if len(values) > 1 and math.isfinite(spread):
        spans.append((f" {'+-' if ascii_only else '±'}{units.metric(spread, 2)}", "dim"))
    return line(*spans)


def _throughput(view: View, run: Run) -> list[Line]:
    """Return the samples per second over all ranks, and the steps per second."""
    parts: list[Line] = []
    if run.state in ENDED_STATES or run_numbers.silent_s(run, view.history, view.snapshot.time) is not None:
        return parts
    speed = run_numbers.speed(run)
    if speed is not None and math.isfinite(speed[1]):
        parts.append(line((units.rounded(speed[1]), "value"), (f" {run_numbers.speed_unit(speed[0])}", "dim")))
    rate = run_numbers.steps_per_s(run, view.history)
    if rate is not None:
        parts.append(line((units.metric(rate, 3), "text"), (" steps/s", "dim")))
    return parts


def _trouble(view: View, run: Run) -> Line:
    """Return which ranks failed, or how long nothing has been logged."""
    ended = [rank for rank in run.ranks if rank.state in FAILED_STATES]
    if ended:
        text = ", ".join(
            f"rank {rank.rank} {rank.state}" + (f" (exit code {rank.exit_code})" if rank.exit_code is not None else "")
            for rank in ended[:4]
        )
        more = f" and {len(ended) - 4} more" if len(ended) > 4 else ""
        return line((text + more, "bad"))
    silent = run_numbers.silent_s(run, view.history, view.snapshot.time)
    if run.state == "stalled":
        since = f" for {units.duration(silent)}" if silent is not None else ""
        return line((f"stalled: its processes are alive, but nothing has been logged{since}", "warn"))
    if run.state == "running" and silent is not None:
        return line((f"nothing has been logged for {units.duration(silent)}", "warn"))
    return _silent_line(run_numbers.silent_ranks(run, view.history))


def _silent_line(silent: Mapping[int, float]) -> Line:
    """Return which ranks have logged nothing although others did, and for how long at least; empty without any."""
    if not silent:
        return ()
    who = f"rank{'s' * (len(silent) > 1)} {units.ranges(silent)}"
    have = "have" if len(silent) > 1 else "has"
    return line((f"{who} {have} logged nothing for {units.duration(min(silent.values()))}, others have", "warn"))
