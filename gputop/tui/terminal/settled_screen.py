"""A screen that opens, takes a new size and changes its layout in one frame each.

Textual shows each layout as soon as it is made: first empty panes, then their content, then the content again where it has
changed the height of a pane. Here, nothing is shown until every pane has its size and its contents.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from contextvars import Context

from textual import events
from textual.geometry import Region, Size
from textual.notifications import Notify, SeverityLevel
from textual.screen import Screen, ScreenResultType
from textual.widget import Widget

from gputop.terminal_text import printable
from gputop.tui.terminal.private_textual import (
    can_settle,
    forget_removed_widgets,
    hold,
    install_compositor,
    lay_out,
    paint_changed,
    paint_now,
    refresh_quietly,
    release,
)
from gputop.tui.terminal.screen_notice import ScreenNotice

ROUNDS = 3
"""Content sets heights, and heights set content: after this many layouts, the screen is shown as it is."""
FREED_AFTER_S = 2.0
"""How long after its end a screen is freed: a stopped timer keeps it for up to a second."""


class SettledScreen(Screen[ScreenResultType]):
    """Subclasses draw in ``fill``, and choose what depends on the terminal's size in ``take_size``."""

    def __init__(self) -> None:
        super().__init__()
        install_compositor(self)
        hold(self)
        self._settling = False
        self._taken: Size | None = None
        """The size that was passed to ``take_size``."""
        self._laid_out: Size | None = None
        """The size that the panes were last laid out for; ``size`` is always the terminal's."""
        self._unseen = False
        """Whether there is a layout that was not painted yet."""
        self._changed = False
        """Whether classes were changed since the last layout."""

    def on_unmount(self) -> None:
        """Free the screen, and the caches of what it drew, in a moment.

        A screen is thousands of objects that refer to one another. Those that the collector has seen while the screen was
        open would not be examined again for a hundred screens.
        """
        # The current context refers to this screen.
        asyncio.get_running_loop().call_later(FREED_AFTER_S, _free, context=Context())

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a message about this screen for a moment, as plain text, and at most until the screen is closed or covered.

        ``App.notify`` shows what is true beyond this screen, such as what was done.
        """
        shown_s = self.app.NOTIFICATION_TIMEOUT if timeout is None else timeout
        self.app.post_message(Notify(ScreenNotice(printable(message), title, severity, shown_s, screen=self)))

    def take_size(self, size: Size) -> None:
        """Set classes for this size of the terminal; called before a layout."""

    def set_heights(self) -> None:
        """Set the heights that follow from the panes' contents; their widths are known. Called before each ``fill``."""

    def fill(self) -> None:
        """Draw the panes, which have their sizes. Setting a height only here costs a second call."""

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Appear with the newest content: for the first time, or after the screen above was closed."""
        if self._taken is None:
            event.refresh_styles = False  # they were set a moment ago
        self._take(self.app.size)
        self._lay_out_unseen()
        # After everything that Textual does now to open this screen or to close another one: each step would make a frame.
        self.app.call_next(self.settle, now=True)

    def on_resize(self, event: events.Resize) -> None:
        """Take a new size, unless the screen is already laid out for it."""
        if event.size != self._taken or not can_settle(self):
            self.resize(event.size)
        else:
            event.prevent_default()

    def resize(self, size: Size) -> None:
        """Take a size of the terminal, and show everything again: the size may have been different for a moment."""
        self._take(size)
        self.settle(now=True)

    def _take(self, size: Size) -> None:
        before = self.classes
        self._taken = size
        self.take_size(size)
        self._changed = self._changed or self.classes != before

    def choose_classes(self, **chosen: bool) -> None:
        """Set (True) or remove classes; ``settle`` lays out the screen accordingly."""
        before = self.classes
        for name, is_set in chosen.items():
            self.set_class(is_set, name, update=False)
        self._changed = self._changed or self.classes != before

    def focus_now(self, pane: Widget | None) -> None:
        """Give a pane the focus, so that the next frame shows it there; Textual does that only after that frame."""
        for each in (self.focused, pane):
            if each is not None:
                each.has_focus = each is pane
        self.set_focus(pane)

    def settle(self, *, now: bool = False) -> None:
        """Set the heights, lay out, draw, and show everything at once; a drawing that changes the layout costs another round.

        ``now``: show it even if the layout stays.
        """
        if self._settling or self._taken is None or not self.is_mounted or not self.display:
            return  # the panes of a screen that is being closed are removed before it is
        if not can_settle(self):
            self._settle_late()
            return
        self._settling = True
        try:
            self._lay_out_unseen()
            for _ in range(ROUNDS):
                self.set_heights()
                self._lay_out_unseen()
                self.fill()
                if not self._lay_out_unseen():
                    break
        finally:
            self._settling = False
            release(self)
        if now or self._unseen:
            self._unseen = False
            paint_now(self)
        else:
            paint_changed(self)

    def note_changed(self, pane: Widget, regions: Sequence[Region]) -> None:
        """Request painting of a pane's changed regions: by ``settle`` if it draws now, else by Textual later."""
        if self._settling:
            refresh_quietly(pane, regions)
        else:
            pane.refresh(*regions)

    def _lay_out_unseen(self) -> bool:
        """Lay out the screen if needed, without showing it; return whether a pane now has another size."""
        hold(self)
        if not can_settle(self) or self._taken is None:
            return False
        if self._changed:
            self.app.stylesheet.update(self)
        resized = lay_out(self, self._taken, always=self._changed or self._laid_out != self._taken)
        self._changed, self._laid_out = False, self._taken
        self._unseen = self._unseen or resized is not None
        return bool(resized)

    def _settle_late(self) -> None:
        """Draw now and after the next layout, whenever an unknown Textual makes it."""
        if self._changed:
            self._changed = False
            self.update_node_styles(animate=False)
        self._draw_now()
        self.call_after_refresh(self._draw_now)

    def _draw_now(self) -> None:
        if self.is_mounted and self.display and self.size:
            self.set_heights()
            self.fill()


def _free() -> None:
    forget_removed_widgets()
    gc.collect()
