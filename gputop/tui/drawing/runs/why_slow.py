"""How a step's time is spent, in words, and why it is not shorter. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Run
from gputop.tui.drawing.line import Line, Span, clean, joined, line, width
from gputop.tui.drawing.run_panel import STYLES, slowest_rank

DATA_SHARE, WAIT_SHARE = 0.15, 0.15
"""From these shares of a step on, waiting is mentioned; the share for data is the doctor's limit (rule D01)."""
REST_SHARE = 0.05
"""Up to this share, the rest of a step counts as the loop's own work."""
KNOWN_SHARE = 0.5
"""With less of a step known, its largest part means nothing."""
PACE_FAMILIES = "DEF"
"""The doctor's families of rules on pace: input, efficiency, stragglers."""
_WHOLE_WORDS = {"fwd": "forward", "bwd": "backward", "opt": "optimizer", "wait": "waiting for ranks"}
_WORK = {"fwd": "the forward pass", "bwd": "the backward pass", "opt": "the optimizer"}


def step_words(run: Run, shares: Mapping[str, float], findings: Sequence[Finding], cells: int) -> Line:
    """Return the parts of a step with their shares, and the reason for them: in whole words if they fit into ``cells``.

    If not everything fits, a reason that calls for action stays and the smallest parts are left out; any other reason is left
    out before the parts.

    Args:
        run: The run.
        shares: Part of a step, one of ``run_panel.STYLES`` -> its share, 0 to 1.
        findings: What the doctor finds at the time of the shares.
        cells: Cells of the line.
    """
    why = reason(run, shares, findings)
    said = (*_parts(shares, _named(run)), *why)
    kept = dict(shares)
    if width(said) > cells and why and why[-1].style != "warn" and width((*_parts(kept, {}), *why)) > cells:
        why = ()
    while width(said) > cells and kept:
        said = (*_parts(kept, {}), *why)
        del kept[min(kept, key=lambda word: kept[word])]
    return said


def reason(run: Run, shares: Mapping[str, float], findings: Sequence[Finding]) -> Line:
    """Return why a step takes as long as it does: as the doctor found it, else by the shares; empty if they do not show it."""
    found = next((one for one in findings if one.run == run.run_id and one.id[:1] in PACE_FAMILIES), None)
    if found is not None:
        return line(("   ", "dim"), (clean(found.title), "warn"))
    late = slowest_rank(run)
    if shares.get("data", 0.0) >= DATA_SHARE:
        return line(("   ", "dim"), ("it waits for data", "warn"))
    if shares.get("wait", 0.0) >= WAIT_SHARE:
        text = "ranks wait for one another" if late is None else _who_waits(len(run.ranks) - 1, late.rank)
        return line(("   ", "dim"), (text, "warn"))
    most = max(shares, key=lambda word: shares[word], default="")
    if sum(shares.values()) < KNOWN_SHARE or most not in _WORK:
        return ()
    return line(("   ", "dim"), (f"it computes: {_WORK[most]} takes most", "ok"))


def _who_waits(others: int, late: int) -> str:
    return f"{others} rank{'s wait' if others != 1 else ' waits'} for rank {late}"


def _named(run: Run) -> dict[str, str]:
    late = slowest_rank(run)
    return _WHOLE_WORDS if late is None else {**_WHOLE_WORDS, "wait": f"waiting for rank {late.rank}"}


def _parts(shares: Mapping[str, float], names: Mapping[str, str]) -> Line:
    parts = [line((f"{names.get(word, word)} {share * 100:.0f}%", STYLES[word])) for word, share in shares.items()]
    rest = 1.0 - sum(shares.values())
    if names and rest >= REST_SHARE:
        parts.append(line((f"not measured {rest * 100:.0f}%", "dim")))
    return joined(parts, Span("  "))
