"""A notice about one screen: it ends when that screen is closed or covered, as it would hide the next screen's header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual.notifications import Notification
from textual.screen import Screen


@dataclass
class ScreenNotice(Notification):
    """A notice that Textual drops, as one whose time is over, once ``screen`` is not on top."""

    screen: Screen[Any] | None = None

    @property
    def time_left(self) -> float:
        """For how many more seconds it is shown."""
        # Not ``is_current``: Textual's includes the screen just below one that covers it.
        is_over = self.screen is not None and self.screen.app.screen_stack[-1:] != [self.screen]
        return 0.0 if is_over else super().time_left
