"""The text in the last column of the process table: a command, shortened, or in full and scrolled, or what a row is. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

from gputop import units
from gputop.tui.drawing.line import ASCII_ELLIPSIS, ELLIPSIS, Span, clean, cut, plain, text_width
from gputop.tui.drawing.processes.rows import Row

SCROLL_CELLS = 8
"""How far one step scrolls the commands."""


def command_text(row: Row, whole: bool = False) -> str:
    """Return the text of a row's last column; a ``whole`` command has the directories of its program and script."""
    if row.kind == "rest":
        where = f" on GPUs {units.ranges(device.index for device in row.devices)}" if row.devices else ""
        return f"memory held by no listed process{where}"
    if row.kind == "run":
        run = row.run
        return "" if run is None else f"{clean(run.name)} · {len(run.ranks)} rank{'s' * (len(run.ranks) != 1)} · {run.state}"
    if row.kind == "parents":
        return " < ".join(f"{clean(one.name)} {one.pid}" for one in row.parents)
    process = row.process
    if process is None:
        return ""
    if not process.in_namespace:
        return "(other PID namespace)"
    if process.command:
        return _whole_command(process.command) if whole else _shown_command(process.command)
    return clean(process.name) if process.name else "?"


@lru_cache(maxsize=1024)
def _shown_command(command: tuple[str, ...]) -> str:
    return clean(" ".join(_without_directories(command)))


@lru_cache(maxsize=1024)
def _whole_command(command: tuple[str, ...]) -> str:
    return clean(" ".join(command))


def scrolled_text(row: Row, scrolled: int, ascii_only: bool) -> str:
    """Return a row's last column, scrolled to the left."""
    if not scrolled or row.kind != "process":
        return command_text(row)
    text = command_text(row, whole=True)
    at = (scrolled - 1) * SCROLL_CELLS
    return (
        text if not at else (ASCII_ELLIPSIS if ascii_only else ELLIPSIS) + plain(cut((Span(text),), at + 1, text_width(text)))
    )


def indent(row: Row) -> str:
    """Return the branches before a row's text in the tree."""
    return "  " * (row.depth - 1) + "└ " if row.depth else ""


def _without_directories(command: Sequence[str]) -> list[str]:
    """Return a command with its program and script reduced to base names: directories would fill the column."""
    shown = list(command)
    script = next((place for place, word in enumerate(shown) if word.endswith(".py")), 0)
    for place in {0, script}:
        shown[place] = os.path.basename(shown[place]) or shown[place]
    return shown
