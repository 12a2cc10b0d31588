"""The visible part of an x axis and the position at which values are read: how keys and the mouse change them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gputop.history.series import X_MAX

SMALLEST_SHARE = 1e-4
"""A smaller part of the whole would show nothing: a series keeps a few thousand points."""
WHOLE_SHARE = 0.95
"""Who zooms out to this much of the whole wants all of it: a live run has grown since the axis was zoomed in."""
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Window:
    """``part`` of an axis is visible, or all of it; ``cursor`` is the x at which values are read."""

    part: Span | None = None
    cursor: float | None = None

    def visible(self, whole: Span) -> Span:
        """Return the x to draw between; the end follows a live run, unless a part is chosen."""
        if self.part is None or self.part[1] <= whole[0] or self.part[0] >= whole[1]:
            return whole
        return self.part

    def zoomed(self, whole: Span, factor: float, at: float | None = None) -> Window:
        """Return a window ``factor`` times as wide around the x ``at``, else around the cursor, else around the middle."""
        start, end = self.visible(whole)
        middle = at if at is not None else self.cursor if self.cursor is not None else (start + end) / 2
        middle = min(end, max(start, middle))
        width = (end - start) * factor
        if width >= (whole[1] - whole[0]) * (WHOLE_SHARE if factor > 1 else 1):
            return replace(self, part=None)
        width = max(width, (whole[1] - whole[0]) * SMALLEST_SHARE)
        share = (middle - start) / (end - start) if end > start else 0.5
        return replace(self, part=_within(middle - share * width, width, whole))

    def selected(self, whole: Span, first: float, last: float) -> Window:
        """Return a window from one x to another, in any order."""
        start, end = max(whole[0], min(first, last)), min(whole[1], max(first, last))
        least = (whole[1] - whole[0]) * SMALLEST_SHARE
        return replace(self, part=(start, end)) if end - start > least else self

    def moved(self, whole: Span, columns: int, by: int) -> Window:
        """Return a window whose cursor is ``by`` of ``columns`` columns further; beyond an edge, the visible part moves along.

        A cursor appears at the end, where the newest values are.
        """
        start, end = self.visible(whole)
        step = (end - start) / max(1, columns)
        if self.cursor is None or not start <= self.cursor <= end:
            return replace(self, cursor=end - step / 2)
        cursor = min(whole[1], max(whole[0], self.cursor + by * step))
        if self.part is None or start <= cursor <= end:
            return replace(self, cursor=min(end, max(start, cursor)))
        return Window(_within(cursor - step / 2 if by < 0 else cursor - (end - start) + step / 2, end - start, whole), cursor)

    def pointed(self, x: float) -> Window:
        """Return a window whose cursor is at ``x``."""
        return replace(self, cursor=x if abs(x) <= X_MAX else None)


def _within(start: float, width: float, whole: Span) -> Span:
    start = max(whole[0], min(start, whole[1] - width))
    return start, start + width
