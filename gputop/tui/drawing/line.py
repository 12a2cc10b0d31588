"""The unit of drawing: a line is a tuple of spans, a span is text and the name of a style.

Drawing functions are pure and know no colours: a style name says what the text *means*; ``tui/widgets/lines.py`` turns
names into terminal styles for the theme (16 colours, light, NO_COLOR). Data never contains markup.
"""

from __future__ import annotations

from typing import NamedTuple

STYLES = (
    "text",  # plain
    "dim",  # less important: units, separators, N/A
    "title",  # a pane's title
    "key",  # a key to press
    "value",  # a number that matters
    "ok",  # state: good
    "warn",  # state: look at this
    "bad",  # state: broken
    "accent",  # the selected or involved thing
    "bar",  # filled part of a bar
    "track",  # empty part of a bar
    "cursor",  # the line under the cursor
    "rank0", "rank1", "rank2", "rank3", "rank4", "rank5", "rank6", "rank7",  # series that must be told apart
)  # fmt: skip


class Span(NamedTuple):
    """A piece of a line: its text (no control characters) and a name from ``STYLES``."""

    text: str
    style: str = "text"


Line = tuple[Span, ...]
