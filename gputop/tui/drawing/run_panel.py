"""The panel next to the loss on a wide screen: progress, how one step divides, and which rank the others wait for. Pure."""

from __future__ import annotations

from statistics import median

from gputop import units
from gputop.snapshot import Rank, Run
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.bars import segments
from gputop.tui.drawing.line import Line, Span, clip, joined, line
from gputop.tui.drawing.ranks import apart, of_one_step
from gputop.tui.state.view import View

PANEL_CELLS = 50
WAIT_SHARE_MIN = 0.05
"""Below this median share of waiting, no rank delays the others."""
PARTS = (
    # (word, metric, style); as ranks report it, waiting for other ranks is part of the backward pass
    ("data", "phase/data", "rank1"),
    ("fwd", "phase/forward", "rank0"),
    ("bwd", "phase/backward", "rank2"),
    ("wait", "phase/communication", "rank6"),
    ("opt", "phase/optimizer", "rank4"),
)


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
    """Return the known parts of a step as shares (0 to 1) of its time, from sums over the ranks, by word.

    Waiting is taken out of the backward pass. Values that cannot belong to one step are left out. The newest parts may be of
    a longer step than the newest one: parts that exceed it are shares of their sum.
    """
    shares: dict[str, float] = {}
    for word, metric, _ in PARTS:
        held = [
            (rank.metrics[metric], rank.metrics["step_s"]) for rank in run.ranks if {metric, "step_s"} <= rank.metrics.keys()
        ]
        whole = sum(took for _, took in held)
        part = sum(value for value, _ in held)
        if whole > 0 and 0 <= part <= whole:
            shares[word] = part / whole
    return of_one_step(apart(shares))


def _split(run: Run, ascii_only: bool) -> list[Line]:
    shares = step_shares(run)
    took = run_numbers.latest(run, "step_s")
    if not shares or took is None:
        return []
    styles = {word: style for word, _, style in PARTS}
    bar = segments([(share, styles[word]) for word, share in shares.items()], PANEL_CELLS, ascii_only)
    named = joined((line((f"{word} {share * 100:.0f}%", styles[word])) for word, share in shares.items()), Span("  "))
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
