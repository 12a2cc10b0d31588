"""Lines that are drawn when somebody looks at them."""

from __future__ import annotations

from gputop.tui.drawing.late_lines import LateLines
from gputop.tui.drawing.line import Line, Span
from gputop.tui.widgets.lines import LinesWidget


def words(lines: object) -> list[str]:
    return [line[0].text for line in lines]  # type: ignore[attr-defined]


def test_only_visible_lines_are_drawn_and_only_once() -> None:
    drawn: list[int] = []

    def draw(row: int) -> Line:
        drawn.append(row)
        return (Span(f"row {row}"),)

    lines = LateLines([(Span("heading"),)], 500, draw, [(Span("note"),)])
    widget = LinesWidget()
    widget.take_lines(lines)
    assert len(widget.lines) == 502
    assert words(widget.lines[:3]) == ["heading", "row 0", "row 1"]
    assert words(widget.lines[499:]) == ["row 498", "row 499", "note"]
    assert words([widget.lines[1], widget.lines[-1]]) == ["row 0", "note"]
    assert drawn == [0, 1, 498, 499]
    below = lines.below([(Span("above"),)])
    assert words(below) == ["above", *words(lines)]
