"""The configuration of one run, or of several side by side: first what differs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gputop.facts.memory_text import memory_lines
from gputop.snapshot import Run
from gputop.tui.drawing.line import Line, Span, clean, clip_text, dimmed, fit_text
from gputop.tui.drawing.prose import pairs

MISSING = "-"
KEY_CELLS_MAX = 16
VALUE_CELLS_MIN = 6
"""Narrower values are stacked below their key."""


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield a configuration as pairs of dotted name and text."""
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def config_lines(runs: Sequence[tuple[Run, str]], columns: int, ascii_only: bool = False) -> tuple[Line, ...]:
    """Return the configuration of the runs, each given with the style of its curve.

    Of one run: its configuration and where it comes from. Of several: a table of the keys that differ, then what they share.
    """
    if len(runs) == 1:
        run = runs[0][0]
        rows = [*flat(run.config), ("run id", run.run_id)]
        rows += [(f"rank {rank.rank}'s memory", text) for rank in run.ranks for text in memory_lines(rank.facts)]
        rows += [("tags", ", ".join(run.tags))] if run.tags else []
        rows += [("recipe", run.recipe)] if run.recipe else []
        rows += [("job", run.job_id)] if run.job_id else []
        rows += [("command", " ".join(run.command))] if run.command else []
        return pairs(rows, columns, indent="")
    configs = [dict(flat(run.config)) for run, _ in runs]
    keys = list(dict.fromkeys(key for config in configs for key in config))
    different = [key for key in keys if len({config.get(key) for config in configs}) > 1]
    same = [(key, configs[0][key]) for key in keys if key not in different]
    if not keys:
        return ((Span("No configuration recorded.", "dim"),),)
    lines = _table([(key, [config.get(key, MISSING) for config in configs]) for key in different], runs, columns, ascii_only)
    if not different:
        lines = [(Span("The same in all of them:", "dim"),)]
    return (*lines, *(dimmed(line) for line in pairs(same, columns, indent="")))


def _table(
    rows: Sequence[tuple[str, Sequence[str]]], runs: Sequence[tuple[Run, str]], columns: int, ascii_only: bool
) -> list[Line]:
    styles = [style for _, style in runs]
    mark = "*" if ascii_only else "●"
    key_cells = min(KEY_CELLS_MAX, max((len(key) for key, _ in rows), default=0))
    room = (columns - key_cells) // len(runs) - 1
    if room < VALUE_CELLS_MIN:
        return [line for key, values in rows for line in _stacked(key, values, styles, mark, columns)]
    head: Line = (Span(" " * key_cells), *(Span(f" {mark:>{room}}", style) for style in styles))
    return [head, *(_row(key, values, key_cells, room) for key, values in rows)]


def _row(key: str, values: Sequence[str], key_cells: int, room: int) -> Line:
    return (
        Span(fit_text(clean(key), key_cells), "value"),
        *(Span(" " + fit_text(clean(value), room, ">"), "text") for value in values),
    )


def _stacked(key: str, values: Sequence[str], styles: Sequence[str], mark: str, columns: int) -> Iterator[Line]:
    yield (Span(clip_text(clean(key), columns), "value"),)
    for value, style in zip(values, styles, strict=True):
        yield (Span(f"  {mark} ", style), Span(clip_text(clean(value), columns - 4), "text"))
