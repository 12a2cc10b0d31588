"""The launch screen's list: demos, the user's own commands, and faults, one line each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gputop.tui.drawing.line import Line, Span, clean, clip
from gputop.tui.drawing.prose import BLANK
from gputop.tui.widgets.choice_list import Item

OWN = "own "
FAULTS = "faults/"


class Entry(Protocol):
    """What the list needs to know about an entry."""

    @property
    def key(self) -> str: ...  # noqa: D102 - as in tui.screens.launch.entries.Launchable
    @property
    def summary(self) -> str: ...  # noqa: D102


def list_items(entries: Sequence[Entry], columns: int, *, short: bool) -> list[Item]:
    """Return the list's lines; ``short`` omits the summaries."""
    groups = (
        ("Demos", [entry for entry in entries if not entry.key.startswith((OWN, FAULTS))]),
        ("Your own", [entry for entry in entries if entry.key.startswith(OWN)]),
        ("Faults" if short else "Faults: a demo with one mistake", [e for e in entries if e.key.startswith(FAULTS)]),
    )
    items: list[Item] = []
    for title, chosen in groups:
        if not chosen:
            continue
        if items and not short:
            items.append(Item(BLANK))
        items.append(Item(clip((Span(title, "title"),), columns)))
        names = max(len(_name(entry)[0].text) for entry in chosen)
        for entry in chosen:
            (name,) = _name(entry)
            about = () if short else (Span(" " * (names - len(name.text) + 2)), Span(clean(entry.summary), "dim"))
            items.append(Item(clip((Span("  "), name, *about), columns), entry.key))
    return items


def _name(entry: Entry) -> Line:
    if entry.key == OWN:
        return (Span("a command line ...", "accent"),)
    return (Span(clean(entry.key.removeprefix(OWN).removeprefix(FAULTS)), "value"),)
