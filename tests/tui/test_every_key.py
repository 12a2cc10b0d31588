"""Every key that the help lists is pressed in a real terminal: each changes what the screen shows, or says why it does not.

The keys come from the help's own table. The sampler's interval is long, so that nothing but a key changes the screen.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.tui.state.keys import KEYS
from tests import nvml_sim
from tests.terminal import KEYS as SENT
from tests.terminal import Terminal
from tests.tracking.kit import Home, home

assert home

RANK = """
import sys, gputop
with gputop.init(id=sys.argv[1], name=sys.argv[1]) as run:
    for step in range(60):
        wait = 0.01 + 0.02 * int(sys.argv[2])
        run.log({"loss": 3 - step / 30, "step_s": 0.1, "phase/communication": wait, "phase/backward": 0.06}, step=step)
"""
CHANGES_WITHIN_S = 20.0
NAMES = {
    "Ctrl-C": "ctrl+c", "Ctrl-P": "\x10", "Ctrl-L": "\x0c", "Ctrl-S": "ctrl+s", "Ctrl-D": "\x04", "Esc": "escape",
    "Tab": "tab", "Shift-Tab": "shift+tab", "PgUp": "pageup", "PgDn": "pagedown", "Home": "home", "End": "end",
    "Enter": "enter", "Space": "space", "F1": "\x1bOP", "F2": "f2", "F5": "f5", "F6": "\x1b[17~", "F9": "f9", "F10": "f10",
    "Up": "up", "Down": "down",
}  # fmt: skip
SEVERAL = {"arrows": ("down", "up"), "1-4": ("1", "2", "3", "4"), "digits": ("1",)}
WAYS = {"dashboard": (), "run": ("o",), "GPU": ("1", "enter"), "doctor": ("d",)}
"""Screen -> the keys that open it from the dashboard."""
HEADS = {"run": "› run", "GPU": "› GPU", "doctor": "› doctor"}
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
}
"""What makes room for an effect: at the top, nothing is further up."""
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
AFTER_ON = {("dashboard", "space"): ("escape",), ("run", "space"): ("u",)}
"""What takes an effect back that would hide those of other keys."""
ELSEWHERE = {
    "launch": "tests/tui/screens/test_launch.py and test_job_log.py: these keys need jobs",
    "hosts": "tests/tui/screens/hosts: these keys need other machines",
    "replay": "tests/tui/test_terminal_stops.py and tests/cli: these keys need a recording",
}
LEAVES = ("q", "ctrl+c", "f10")
DRAWS_ANEW = "\x0c"
BYTES_OF_A_SCREEN = 3000


def presses(place: str) -> list[str]:
    """The keys that the help lists for a screen, those for everywhere with the dashboard's."""
    wanted = {place} | ({"everywhere", "everywhere but a run"} if place == "dashboard" else {"every screen but the dashboard"})
    found: list[str] = []
    for row in KEYS:
        if wanted & set(row.where.split(", ")):
            for word in row.keys.split():
                found += SEVERAL.get(word, (NAMES.get(word, word),))
    return list(dict.fromkeys(found))


def seen(terminal: Terminal) -> list[list[tuple[object, ...]]]:
    """The cells of the screen with their looks; without the clock."""
    rows = terminal.cells()
    head = "".join(str(cell[0]) for cell in rows[0])
    for clock in re.finditer(r"\d\d:\d\d:\d\d", head):
        rows[0][clock.start() : clock.end()] = []
    return rows


class Keyboard:
    """A person at the terminal who checks that each key does something."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.dead: list[tuple[str, str]] = []

    def still(self) -> list[list[tuple[object, ...]]]:
        """The screen once it has stood still for a moment."""
        before = seen(self.terminal)
        while True:
            time.sleep(0.08)
            now = seen(self.terminal)
            if now == before:
                return now
            before = now

    def go(self, place: str) -> None:
        """Back to the dashboard, and on to a screen, unless it is open."""
        if place != "dashboard" and HEADS[place] in self.terminal.lines()[0]:
            return
        while "›" in self.terminal.lines()[0] or "3 Processes" not in self.terminal.text():
            self.terminal.press("escape")
        for key in WAYS[place]:
            self.terminal.press(key)
        if place != "dashboard":
            self.terminal.wait_for(HEADS[place])

    def press(self, place: str, key: str) -> None:
        """Press a key on a screen, and note it if nothing comes of it."""
        self.go(place)
        self.terminal.press(*BEFORE.get((place, key), ()))
        before, size = self.still(), len(self.terminal.received)
        self.terminal.press(key)
        end = time.monotonic() + CHANGES_WITHIN_S
        while not self.has_changed(key, before, size):
            if time.monotonic() > end:
                self.dead.append((place, key))
                return
            time.sleep(0.03)
        if back := AFTER_ON.get((place, key), AFTER.get(key, ())):
            self.still()
            self.terminal.press(*back)
            self.still()

    def has_changed(self, key: str, before: list[list[tuple[object, ...]]], size: int) -> bool:
        if key == DRAWS_ANEW:
            return len(self.terminal.received) > size + BYTES_OF_A_SCREEN
        return seen(self.terminal) != before


@pytest.fixture
def workers() -> Iterator[tuple[int, ...]]:
    """Processes that the simulated GPUs show, as many as fill the table."""
    found = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) for _ in range(3)]
    yield tuple(process.pid for process in found)
    for process in found:
        process.kill()
        process.wait()


def test_every_row_of_the_help_belongs_to_a_screen() -> None:
    known = {"everywhere", "everywhere but a run", "every screen but the dashboard", *WAYS, *ELSEWHERE}
    assert {place for row in KEYS for place in row.where.split(", ")} == known
    assert all(len(key) == 1 or key in SENT or key.startswith("\x1b") for place in WAYS for key in presses(place))


def test_every_key_of_the_help_does_something(home: Home, tmp_path: Path, workers: tuple[int, ...]) -> None:
    home.any_facts = True
    for name, rank, size in (("first", "0", "1"), ("second", "0", "2"), ("second", "1", "2")):
        assert home.run(RANK, name, rank, RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=size, LOCAL_WORLD_SIZE=size)[0] == 0
    scenario = nvml_sim.h100_box(4, busy=3, pids=workers)
    environment = nvml_sim.environment(scenario.write(tmp_path / "scenario")) | {"GPUTOP_DIR": str(home.state)}
    with Terminal([sys.executable, "-m", "gputop", "-i", "10m"], environment) as terminal:
        terminal.wait_for(lambda text: str(workers[0]) in text and "loss" in text)
        keyboard = Keyboard(terminal)
        for place in WAYS:
            for key in presses(place):
                if key not in LEAVES:
                    keyboard.press(place, key)
        assert keyboard.dead == []
        keyboard.go("dashboard")
        terminal.press("q")
        assert terminal.wait_exit() == 0
