"""What a widget has noted to be repainted is in the next frame, whatever that frame was for."""

from __future__ import annotations

from gputop.tui.drawing.line import Span
from gputop.tui.screens.base import KeyBar
from gputop.tui.terminal.partial_update import PartialUpdate
from tests.tui.kit import whole_app


async def test_a_frame_for_something_else_shows_what_a_widget_has_noted() -> None:
    """Textual clears its list of such widgets after each frame: a key right after a change of the theme stayed unseen."""
    app = whole_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        app.screen.query_one(KeyBar).set_lines([(Span("changed", "text"),)])
        update: object = app.screen._compositor.render_update()
        assert isinstance(update, PartialUpdate)
        assert "changed" in "".join(text for piece in update.pieces for text, _ in piece.cells)
