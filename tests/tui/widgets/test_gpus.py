"""The cursor in the GPUs pane."""

from __future__ import annotations

import pytest

from gputop.tui.drawing.bars import segments
from gputop.tui.drawing.gpus.past import row_of_past
from gputop.tui.drawing.line import Span, plain, width
from gputop.tui.widgets.gpus import _marked

SHARES = (0.0, 0.2, 0.5, 0.8, 1.0, 0.0)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_cursor_marks_a_row_except_its_past(ascii_only: bool) -> None:
    past = row_of_past(SHARES, ascii_only)
    bar = segments([(0.5, "memory")], 8, ascii_only)
    row = (Span("0 ", "value"), *row_of_past((None, None, *SHARES), ascii_only), Span(" "), *bar, Span(" 12G", "text"))
    marked = _marked(row, 0, 30, 30)
    assert plain(marked) == plain(row).ljust(30)
    assert width(marked) == 30
    assert [span for span in marked if not span.style.endswith(" cursor")] == list(past)
    styles = [span.style for span in marked if span.style.endswith(" cursor")]
    assert styles == [
        "value cursor",
        "track cursor",
        "text cursor",
        "memory cursor",
        "track cursor",
        "text cursor",
        "text cursor",
    ]


def test_the_cursor_marks_only_its_own_cells() -> None:
    row = (Span("left "), Span("middle"), Span(" right"))
    assert _marked(row, 5, 11, 17) == (Span("left "), Span("middle", "text cursor"), Span(" right"))
