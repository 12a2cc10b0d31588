"""A user at a real terminal who presses keys and checks that each one changes the screen, or says why it does not."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from gputop.tui.state.keys import KEYS
from tests.terminal import Terminal

CHANGES_WITHIN_S = 20.0
TRIES = 3
"""A key may undo the one before it, whose frame is late: both come in one frame, and nothing changes."""
TAKEN_BACK_WITHIN_S = 5.0
"""On a busy machine, a screen may be still although a key has not been answered yet."""
NAMES = {
    "Ctrl-C": "ctrl+c", "Ctrl-P": "\x10", "Ctrl-L": "\x0c", "Ctrl-S": "ctrl+s", "Ctrl-D": "\x04", "Esc": "escape",
    "Tab": "tab", "Shift-Tab": "shift+tab", "PgUp": "pageup", "PgDn": "pagedown", "Home": "home", "End": "end",
    "Enter": "enter", "Space": "space", "F1": "\x1bOP", "F2": "f2", "F5": "f5", "F6": "\x1b[17~", "F9": "f9", "F10": "f10",
    "Up": "up", "Down": "down",
}  # fmt: skip
SEVERAL = {"arrows": ("down", "up"), "1-4": ("1", "2", "3", "4"), "digits": ("1",)}
WAYS: Mapping[str, tuple[str, ...]] = {
    "dashboard": (),
    "run": ("o",),
    "GPU": ("1", "enter"),
    "doctor": ("d",),
    "launch": ("l", "4"),
    "hosts": (),
    "replay": (),
}
"""Screen -> the keys that open it from the first one of its program."""
FIRST = ("dashboard", "hosts", "replay")
HEADS = {"run": "› run", "GPU": "› GPU", "doctor": "› doctor", "launch": "› launch"}
BEFORE = {
    ("dashboard", "up"): ("down",),
    ("dashboard", "pageup"): ("pagedown",),
    ("dashboard", "home"): ("end",),
    ("dashboard", "1"): ("3",),
    ("dashboard", "3"): ("1",),
    ("dashboard", "left"): ("right",),
    ("dashboard", "["): ("]",),
    ("dashboard", "escape"): ("/", "x"),
    ("run", "["): ("]",),
    ("run", "left"): ("right",),
    ("run", "-"): ("+",),
    ("run", "0"): ("+",),
    ("run", "u"): ("space",),
    ("GPU", "left"): ("right",),
    ("launch", "space"): ("2", "end"),
    ("launch", "1"): ("2", "end"),
    ("launch", "\x04"): ("3",),
    ("launch", "x"): ("3", "home"),
    ("launch", "k"): ("3", "home"),
    ("launch", "f9"): ("3", "home"),
    ("launch", "r"): ("3", "end", "4"),
    ("launch", "end"): ("home",),
    ("hosts", "up"): ("down",),
    ("hosts", "pageup"): ("pagedown",),
    ("hosts", "home"): ("end",),
    ("hosts", "escape"): ("/", "x"),
    ("replay", "{"): ("}",),
}
"""Keys that make an effect possible: at the top, nothing is further up."""
AFTER = {
    "p": ("p",),
    "g": ("g",),
    "t": ("t",),
    "/": ("escape",),
    ":": ("escape",),
    "\x10": ("escape",),
    "k": ("escape",),
    "f9": ("escape",),
    "1": ("3",),
    "2": ("3",),
    "4": ("3",),
    "tab": ("3",),
    "shift+tab": ("3",),
}
AFTER_ON = {
    ("dashboard", "space"): ("escape",),
    ("run", "space"): ("u",),
    ("hosts", "/"): ("escape",),
    ("launch", "space"): ("tab",),
    ("launch", "1"): ("tab",),
    ("launch", "x"): ("escape",),
    ("launch", "n"): ("escape",),
    ("launch", "N"): ("escape",),
    ("launch", "c"): ("escape",),
}
"""Keys that undo an effect that would hide those of other keys."""
LEAVES = ("q", "ctrl+c", "f10")
DRAWS_ANEW = "\x0c"
BYTES_OF_A_SCREEN = 3000
_EVERYWHERE = ("everywhere", "everywhere but a run")


def presses(place: str) -> list[str]:
    """Return the keys that the help lists for a screen; those for everywhere count for each first screen."""
    wanted = {place, *(_EVERYWHERE if place in FIRST else ("every screen but the dashboard",))}
    found: list[str] = []
    for row in KEYS:
        if wanted & set(row.where.split(", ")):
            for word in row.keys.split():
                found += SEVERAL.get(word, (NAMES.get(word, word),))
    return [key for key in dict.fromkeys(found) if key not in LEAVES]


def seen(terminal: Terminal) -> list[list[tuple[object, ...]]]:
    """Return the cells of the screen with their styles, without the clock."""
    rows = terminal.cells()
    head = "".join(str(cell[0]) for cell in rows[0])
    for clock in re.finditer(r"\d\d:\d\d:\d\d", head):
        rows[0][clock.start() : clock.end()] = []
    return rows


class Keyboard:
    """The user; ``dead`` are the keys without an effect."""

    def __init__(self, terminal: Terminal, base: str = "3 Processes") -> None:
        self.terminal = terminal
        self.base = base
        """Text that only the first screen of the program shows."""
        self.dead: list[tuple[str, str]] = []

    def still(self) -> list[list[tuple[object, ...]]]:
        """Return the screen once it has been still for a moment."""
        before = seen(self.terminal)
        while True:
            time.sleep(0.08)
            now = seen(self.terminal)
            if now == before:
                return now
            before = now

    def go(self, place: str) -> None:
        """Go back to the dashboard and open a screen, unless it is open."""
        if place in HEADS and HEADS[place] in self.terminal.lines()[0]:
            return
        while "›" in self.terminal.lines()[0] or self.base not in self.terminal.text():
            self.terminal.press("escape")
        for key in WAYS[place]:
            self.terminal.press(key)
        if place in HEADS:
            self.terminal.wait_for(HEADS[place])

    def press(self, place: str, key: str) -> None:
        """Press a key on a screen, and record it if it has no effect."""
        self.go(place)
        self.terminal.press(*BEFORE.get((place, key), ()))
        for _ in range(TRIES):
            before, size = self.still(), len(self.terminal.received)
            self.terminal.press(key)
            if self.waits(lambda before=before, size=size: self.has_changed(key, before, size), CHANGES_WITHIN_S):
                break
        else:
            self.dead.append((place, key))
            return
        for back in AFTER_ON.get((place, key), AFTER.get(key, ())):
            self.still()
            self.terminal.press(back)
            # Not any change: the key's own last frame may be late.
            self.waits(lambda: seen(self.terminal) == before, TAKEN_BACK_WITHIN_S)
        self.still()

    @staticmethod
    def waits(happened: Callable[[], bool], within_s: float) -> bool:
        """Wait until something has happened; return whether it has."""
        end = time.monotonic() + within_s
        while not happened():
            if time.monotonic() > end:
                return False
            time.sleep(0.03)
        return True

    def has_changed(self, key: str, before: list[list[tuple[object, ...]]], size: int) -> bool:
        if key == DRAWS_ANEW:
            return len(self.terminal.received) > size + BYTES_OF_A_SCREEN
        return seen(self.terminal) != before

    def press_all(self, *places: str) -> None:
        """Press every key in the help of each of these screens."""
        for place in places:
            for key in presses(place):
                self.press(place, key)

    def leave(self) -> int:
        """Quit from the first screen, and return the exit code."""
        self.go(next(place for place in FIRST))
        self.terminal.press("q")
        return self.terminal.wait_exit()
