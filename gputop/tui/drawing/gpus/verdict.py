"""The second line of the screen: whether the GPUs work well, why not, and how the chosen run is doing. Pure."""

from __future__ import annotations

from gputop import units
from gputop.doctor.findings.finding import Finding, is_problem
from gputop.doctor.findings.subjects import name_of, names_of_runs, untracked_run_of
from gputop.snapshot import ENDED_STATES, LIVE_STATES
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.doctor.titles import first_clause
from gputop.tui.drawing.energy import energy_words
from gputop.tui.drawing.gpus.balance import WINDOW_S, Balance, balance, evenness_words
from gputop.tui.drawing.line import Line, Span, clean, clip, fit, joined, line, width
from gputop.tui.state.device_state import slowness, trouble
from gputop.tui.state.view import View

WHY_CELLS_MIN = 24
"""The reason is cut before it takes less than this."""


def verdict_line(view: View | None, cells: int) -> Line:
    """Return "7 of 8 GPUs work well  GPU 6 is slowed by heat · load balance 97% · 853 samples/s · loss 2.13 ↓ · 1h52m left".

    Exactly ``cells`` cells. What does not fit is left out, the least important first: the energy, the balance, what the count
    is the mean of, the throughput, the time left; then the reason is cut; the loss is left out last.
    """
    if view is None:
        return fit((), cells)
    found = balance(view)
    chip = _chip(view, found)
    why = _why(view, found)
    numbers = _numbers(view, found)
    separator = Span(" · ", "dim")
    for name in ("", "energy", "balance", "span", "speed", "left", "loss"):
        numbers.pop(name, None)
        tail = joined(numbers.values(), separator)
        room = cells - width(chip) - 2 - (width(tail) + 3 if tail else 0)
        if width(why) <= room or (numbers.keys() <= {"loss"} and room >= WHY_CELLS_MIN):
            break
    shown = joined((clip(why, max(0, room)), tail), separator)
    return fit(clip((*chip, Span(" "), *shown), cells), cells)


def _problems(view: View) -> list[Finding]:
    return [finding for finding in view.findings if finding.severity in ("error", "warning")]


def _chip(view: View, found: Balance) -> Line:
    """Return the verdict in a few words on the color of its state."""
    if not found.devices:
        return (Span(" no GPU ", "chip dim"),)
    total = len(found.devices)
    if not found.known:
        return (Span(f" {total} GPU{'s' * (total != 1)}: use unknown ", "chip dim"),)
    problems = _problems(view)
    hindered = bool(found.slow or found.broken)
    count = found.working - len(found.slow)
    every = count == total and not found.uneven and not problems and not view.loading
    well = " well" if every or (hindered and count) else ""
    # A run on half of the machine is fine: only its own GPUs count, and all of them work.
    style = "ok" if every else "dim"
    if hindered or problems or (found.uneven and found.working):
        style = "warn"
    errors = [item for item in problems if item.severity == "error" and is_problem(item) and not _is_past(view, item)]
    if found.broken or errors or _has_diverged(view):
        style = "bad"
    if view.stale_s is not None:
        style = "dim"
    alive = view.run is not None and view.run.state in LIVE_STATES
    if not (alive or found.working or found.unknown or hindered or problems):
        return (Span(f" {total} GPU{'s' * (total != 1)} idle ", f"chip {style}"),)  # "0 of 8 work" sounds like a defect
    whose = "the run's " if found.of_run else ""
    return (Span(f" {count} of {whose}{total} GPU{'s' * (total != 1)} work{'s' * (total == 1)}{well} ", f"chip {style}"),)


def _is_past(view: View, finding: Finding) -> bool:
    """Return whether a finding is about another run than the live one shown, and that run has ended."""
    if view.run is None or view.run.state not in LIVE_STATES:
        return False
    return any(run.run_id == finding.run and run.state in ENDED_STATES for run in view.snapshot.runs)


def _has_diverged(view: View) -> bool:
    return view.run is not None and run_numbers.not_finite_since(view.run, view.history) is not None


def _why(view: View, found: Balance) -> Line:
    """Return the first problem in its first clause; else what is wrong with a GPU."""
    problems = _problems(view)
    if problems:
        first = next((finding for finding in problems if not _is_of_another_run(view, finding)), problems[0])
        more = f" (+{len(problems) - 1})" if len(problems) > 1 else ""
        style = "bad" if first.severity == "error" and is_problem(first) else "warn"
        whose = "" if is_problem(first) else "possible: "
        if _is_of_another_run(view, first):
            name = name_of(first, view.snapshot, names_of_runs(view.snapshot))
            whose = f"{clean(name or 'another run')}: {whose}"
        return line((whose, "text"), (clean(first_clause(first.title)), style), (more, "dim"))
    for device in found.broken:
        broken = trouble(device)
        return line((f"GPU {device.index} is {broken[0] if broken else 'broken'}", "bad"))
    for device in found.slow:
        return line((f"GPU {device.index} is {clean(slowness(device) or 'slow')}", "warn"))
    if found.unknown and found.known:
        return line((f"{found.unknown} unknown", "dim"))
    if found.nothing_runs and view.run is not None:
        return line(("nothing runs", "dim"))
    return ()


def _is_of_another_run(view: View, finding: Finding) -> bool:
    """Return whether a finding is about a run other than the one shown; if none is shown, other than every live run."""
    alive = view.snapshot.process_runs
    if finding.run is None:
        owner = untracked_run_of(finding, view.snapshot)
        shown = view.run
        if owner is None or shown is None:
            return owner is not None and len(alive) > 1
        return shown.run_id not in owner.curve_ids and not {rank.local_pid for rank in shown.ranks} & set(finding.pids)
    if view.run is not None:
        return finding.run != view.run.run_id
    return bool(alive) and not any(finding.run in (run.run_id, *run.curve_ids) for run in alive)


def _numbers(view: View, found: Balance) -> dict[str, Line]:
    """Return the numbers by name, in their order in the line."""
    parts: dict[str, Line] = {}
    if found.varied:
        parts["span"] = line((f"mean of {WINDOW_S:.0f} s", "dim"))
    if found.evenness is not None:
        parts["balance"] = line((evenness_words(found.evenness), "warn" if found.uneven else "text"))
    run = view.run
    if run is None or run.state not in LIVE_STATES:
        return parts
    silent = run_numbers.silent_s(run, view.history, view.snapshot.time) is not None
    pace = run_numbers.pace(run, view.history) if not silent else None
    if pace is not None:
        parts["speed"] = line((units.rounded(pace[1]), "value"), (f" {pace[0]}", "dim"))
    name = run_numbers.loss_name(run)
    value = run_numbers.latest(run, name) if name is not None else None
    if name is not None and value is not None:
        since = run_numbers.not_finite_since(run, view.history)
        after = run_numbers.trend(run, name, view.history) if since is None else f"since step {units.count(since)}"
        style = "value" if since is None else "bad"
        parts["loss"] = line((f"{clean(name)} ", "dim"), (units.metric(value, 3), style), (f" {after}" if after else "", style))
    if silent:
        return parts
    left = run_numbers.seconds_left(run, view.history)
    if left is not None:
        parts["left"] = line((f"{units.coarse_duration(left)} left", "value"))
    energy = energy_words(view, run)
    if energy is not None:
        parts["energy"] = line((energy, "text"))
    return parts
