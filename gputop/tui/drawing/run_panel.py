"""The panel next to the loss on a wide screen: progress, how one step divides, and which rank the others wait for. Pure."""

from __future__ import annotations

from statistics import median

from gputop import units
from gputop.snapshot import Rank, Run
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.bars import segments
from gputop.tui.drawing.line import Line, Span, clip, joined, line
from gputop.tui.drawing.ranks import DEVICE_PHASES, DEVICE_STEP, PHASES, phase_shares
from gputop.tui.state.view import View

PANEL_CELLS = 50
WAIT_SHARE_MIN = 0.05
"""Below this median share of waiting, no rank delays the others."""
STYLES = {"data": "rank1", "fwd": "rank0", "bwd": "rank2", "wait": "rank6", "opt": "rank4"}
"""Word of a part of a step -> its style."""
SPLIT_METRICS = ("step_s", DEVICE_STEP, *(metric for _, metric in (*PHASES, *DEVICE_PHASES)))
"""What ``step_shares`` and ``step_s`` read."""


def panel_lines(view: View, run: Run, height: int) -> tuple[Line, ...]:
    """Return at most ``height`` lines of at most ``PANEL_CELLS`` cells; empty if the run reports nothing for them."""
    ascii_only = view.settings.ascii
    blocks = [_progress(run, ascii_only), _split(run, ascii_only), _ranks(view, run)]
    lines: list[Line] = []
    for block in blocks:
        if block and len(lines) + bool(lines) + min(len(block), 3) <= height:
            lines += [(), *block] if lines else block
    return tuple(clip(part, PANEL_CELLS) for part in lines[:height])


def _progress(run: Run, ascii_only: bool) -> list[Line]:
    step, total = run.step, run_numbers.total_steps(run)
    if step is None or not total:
        return []
    share = min(1.0, step / total)
    words = line(("step ", "dim"), (units.count(step), "value"), (f" of {units.count(total)}", "dim"), f"  {share * 100:.0f}%")
    return [words, segments([(share, "accent")], PANEL_CELLS, ascii_only)]


def step_shares(run: Run) -> dict[str, float]:
    """Return the known parts of a step as shares (0 to 1) of its time, by word: the ranks' shares, weighted by their times."""
    parts = [(phase_shares(rank), rank.metrics["step_s"]) for rank in run.ranks if "step_s" in rank.metrics]
    shares = {}
    for word in STYLES:
        held = [(found[word] * took, took) for found, took in parts if word in found]
        if held:
            shares[word] = sum(part for part, _ in held) / sum(took for _, took in held)
    return shares


def step_s(run: Run) -> float | None:
    """Return how long a step takes, in seconds: on the GPU where that is timed, as the host may only queue most steps."""
    timed = run_numbers.latest(run, DEVICE_STEP)
    return run_numbers.latest(run, "step_s") if timed is None else timed


def _split(run: Run, ascii_only: bool) -> list[Line]:
    shares, took = step_shares(run), step_s(run)
    if not shares or took is None:
        return []
    bar = segments([(share, STYLES[word]) for word, share in shares.items()], PANEL_CELLS, ascii_only)
    named = joined((line((f"{word} {share * 100:.0f}%", STYLES[word])) for word, share in shares.items()), Span("  "))
    return [line(("one step ", "dim"), (f"{units.rounded(took * 1e3)} ms", "value")), bar, named]


def _ranks(view: View, run: Run) -> list[Line]:
    if len(run.ranks) < 2:
        return []
    slowest, distances = slowest_rank(run), run_numbers.steps_behind(run, view.history)
    rows: list[Line] = [line((f"{'rank':>4}  {'step ms':>8}  {'wait':>5}  {'behind':>6}", "dim"))]
    for rank in run.ranks:
        took, waits = rank.metrics.get("step_s"), wait_share(rank)
        behind = distances[rank.rank]
        late = rank is slowest
        mark = ("  < slowest" if view.settings.ascii else "  ◂ slowest") if late else ""
        rows.append(
            line(
                (f"{rank.rank:>4}", "owner"),
                (f"  {units.rounded(None if took is None else took * 1e3):>8}", "warn" if late else "text"),
                (f"  {units.number(None if waits is None else waits * 100, '%'):>5}", "warn" if late else "text"),
                (f"  {units.count(behind):>6}", "warn" if behind else "dim"),
                (mark, "warn"),
            )
        )
    return rows if any(wait_share(rank) is not None or rank.metrics.get("step_s") for rank in run.ranks) else []


def wait_share(rank: Rank) -> float | None:
    """Return the share of its step (0 to 1) for which a rank waits for the others, or None if unknown."""
    waits, took = rank.metrics.get("phase/communication"), rank.metrics.get("step_s")
    return waits / took if waits is not None and took and 0 <= waits <= took else None


def slowest_rank(run: Run) -> Rank | None:
    """Return the rank that waits far less than the others do, which means that they wait for it; None if there is none."""
    known = [(share, rank) for rank in run.ranks if (share := wait_share(rank)) is not None]
    if len(known) < 2:
        return None
    middle = median(share for share, _ in known)
    least, rank = min(known, key=lambda pair: pair[0])
    return rank if middle >= WAIT_SHARE_MIN and least < middle / 2 else None
