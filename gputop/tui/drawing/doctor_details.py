"""What the doctor's screen shows in addition to a finding's text: the GPUs and ranks involved, drawn as in the other panes.

Also the history of the findings, and why the other causes are not the verdict. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputop import units
from gputop.doctor.findings.finding import Abstained, Episode, Finding, Verdict
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.gpus import draw_gpus
from gputop.tui.drawing.line import Drawing, Line, Span, clean, clip
from gputop.tui.drawing.prose import BLANK, heading, wrapped
from gputop.tui.drawing.ranks import draw_ranks
from gputop.tui.state.view import View

MAX_DEVICES = 8
_STATES = {
    "found": ("holds", "bad"),
    "explained": ("explained", "dim"),
    "watching": ("holds, but not for long enough yet", "warn"),
    "not_judged": ("cannot be judged", "dim"),
    "clean": ("does not hold", "ok"),
}


def draw_involved(finding: Finding, view: View, width: int, height: int) -> Drawing:
    """Return the rows of a finding's GPUs and ranks, with its processes marked; at most ``height`` lines."""
    lines: list[Line] = []
    devices = [device for device in view.snapshot.devices if device.uuid in finding.devices]
    if devices:
        shown = devices[:MAX_DEVICES]
        room = len(shown) + 2
        part = replace(view, snapshot=replace(view.snapshot, devices=tuple(shown)), findings=(finding,))
        drawn = draw_gpus(replace(part, settings=replace(view.settings, density="compact")), width, room)
        lines += drawn.lines[: len(shown) + 1]
        if len(devices) > len(shown):
            lines.append((Span(f"   and {len(devices) - len(shown)} more GPUs", "dim"),))
    run = next((run for run in view.snapshot.runs if run.run_id == finding.run), None)
    if run is not None and run.ranks:
        if lines:
            lines.append(BLANK)
        ascii_only = view.settings.ascii
        loss = run_numbers.loss_name(run) or ""
        lines += draw_ranks(run, view.snapshot, width, metric=loss, marked=finding.pids, ascii_only=ascii_only)
    return Drawing((Span("GPUs and ranks involved", "title"),), tuple(lines[:height]))


def why_not_lines(verdicts: Sequence[Verdict], abstained: Sequence[Abstained], width: int) -> tuple[Line, ...]:
    """Return every rule with its outcome: those that hold first, then those that could not be judged, then the clean ones."""
    needs = {item.rule: item for item in abstained}
    groups = {state: [item for item in verdicts if item.state == state] for state in _STATES}
    lines: list[Line] = list(
        wrapped("Each cause that the doctor knows, and why it is or is not the verdict. It holds when:", width)
    )
    for state, (words, style) in _STATES.items():
        if not groups[state]:
            continue
        lines += [BLANK, heading(f"{words[0].upper()}{words[1:]} ({len(groups[state])})")]
        for item in groups[state]:
            lead = f"  {item.rule} "
            text = item.threshold + (f" - explained by {', '.join(item.explained_by)}" if item.explained_by else "")
            drawn = wrapped(text, width, "text", first=lead, rest=" " * len(lead))
            lines += [(Span(lead, style), *drawn[0][1:]), *drawn[1:]]
            if item.rule in needs:
                lines += wrapped(f"needs: {needs[item.rule].needs}", width, "dim", first=" " * len(lead), rest=" " * len(lead))
    return tuple(lines)


def history_lines(episodes: Sequence[Episode], width: int) -> tuple[Line, ...]:
    """Return the findings over time, newest first: since when, for how long, and whether they still hold."""
    lines: list[Line] = [*wrapped("What the doctor has found since gputop started, newest first.", width), BLANK]
    for episode in reversed(episodes):
        began = units.clock(episode.began_at)
        if episode.ended_at is None:
            lasted = Span("until now ", "bad" if episode.finding.severity == "error" else "warn")
        else:
            lasted = Span(f"for {units.duration(max(0.0, episode.ended_at - episode.began_at))} ".ljust(10), "dim")
        row = (Span(f"{began} ", "dim"), lasted, Span(f"{episode.finding.id} ", "dim"), Span(clean(episode.finding.title)))
        lines.append(clip(row, width))
    return tuple(lines)
