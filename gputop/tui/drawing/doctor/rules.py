"""What the doctor's screen shows besides its findings: their history, and why the other causes are not the verdict. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.doctor.findings.finding import Abstained, Episode, Verdict
from gputop.tui.drawing.line import Line, Span, clean, clip
from gputop.tui.drawing.prose import BLANK, heading, wrapped

_STATES = {
    "found": ("holds", "bad"),
    "explained": ("explained", "dim"),
    "watching": ("holds, but not for long enough yet", "warn"),
    "not_judged": ("cannot be judged", "dim"),
    "clean": ("does not hold", "ok"),
}


def why_not_lines(verdicts: Sequence[Verdict], abstained: Sequence[Abstained], width: int) -> tuple[Line, ...]:
    """Return every rule with its outcome: those that hold first, then those that could not be judged, then the clean ones."""
    needs = {item.rule: item for item in abstained}
    groups = {state: [item for item in verdicts if item.state == state] for state in _STATES}
    lines: list[Line] = list(
        wrapped("Each cause that the doctor knows, why it is or is not the verdict, and when it holds:", width)
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
