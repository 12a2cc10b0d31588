"""The help screen: every key by place, a glossary of the words on the other screens, and where to read more."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputop.tui.drawing.line import Line, Span, fit_text
from gputop.tui.drawing.prose import BLANK, heading, side_by_side, wrapped
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.state.keys import KEYS
from gputop.tui.state.view import View
from gputop.tui.widgets.ruled import RuledPane

WORDS = (
    ("GPU, device", "a physical GPU, a MIG instance or a virtual GPU; known by its UUID, shown by its index"),
    ("virtual GPU", "real work on the CPU, measured and shown as a GPU, to try everything without one"),
    ("process", "an operating-system process that uses a GPU or trains; known by its PID"),
    ("run", "one training: all its ranks together"),
    ("rank", "the number of a training process in its run, 0 to world size - 1"),
    ("local rank", "its number on its own machine: which of the machine's GPUs it should use"),
    ("world size", "how many ranks the run has"),
    ("step, epoch", "one optimizer step; one pass over the data"),
    ("journal", "what one rank writes while it trains: loss, step, speed"),
    ("gputop 1.9%", "what gputop itself costs: its share of one core, and what it sends to the terminal, over 10 s"),
    ("load balance", "how evenly the GPUs share the work: their mean utilization as a share of the busiest one's"),
    ("J/sample", "the energy that the run's GPUs take for one sample, by their power in the last minute"),
    ("recipe, job", "something that can be launched here; a launched recipe"),
    ("finding", "one thing wrong: its evidence, the cause, the fix, how sure the doctor is; the first is the verdict"),
    ("GPU utilization", "the share of time in which at least one kernel ran: 100% can still be little work"),
    ("SM, tc", "percent of the time in which the multiprocessors (SM) and the tensor cores (tc) were active"),
    ("nv, pci", "traffic over NVLink and PCIe in both directions, in GB/s"),
    ("cap, hot, brk", "the clock is held down: by the power limit, by heat, by the power brake"),
)
MORE = (
    ("track your own script", "gputop run -- python train.py    (nothing in it has to change)"),
    ("or in its code", "import gputop; gputop.init(); gputop.log(loss=loss)"),
    ("without this screen", "gputop --once, gputop --once --json, gputop doctor --for 15s"),
    ("over a slow link", "ssh -C makes the screen's traffic ten times smaller"),
    ("read more", "README.md and docs/ in gputop's repository; gputop --help"),
)
_KEY_COLUMNS = max(len(key.keys) for key in KEYS) + 2
_WORD_COLUMNS = max(len(name) for name, _ in (*WORDS, *MORE)) + 2
_TWO_COLUMNS_FROM = 140
"""From this width on, the words are next to the keys."""


class HelpScreen(SubScreen):
    """Shows the keys, those of the screen named ``first`` before all others, and the glossary; scrolls."""

    NAME = "help"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "back", "back", show=False),
        Binding("f1", "back", "back", show=False),
    ]
    HINTS = (KeyHint("Up/Down PgUp/PgDn", "scroll"), KeyHint("q", "quit gputop", "app.leave"))
    COMMON = ()

    def __init__(self, view: View | None = None, first: str = "") -> None:
        super().__init__(view)
        self.first = first

    def compose_body(self) -> ComposeResult:
        """Yield the text."""
        yield RuledPane("Keys and words", id="help")

    def fill(self) -> None:
        """Draw the header, and the text in one or two columns: it needs no view."""
        super().fill()
        pane = self.query_one("#help", RuledPane)
        columns = max(40, pane.inner_size.width)
        if columns < _TWO_COLUMNS_FROM:
            pane.set_content([*key_lines(columns, self.first), *word_lines(columns)])
            return
        half = columns // 2 - 2
        left, right = key_lines(half, self.first), word_lines(half)
        pane.set_content(side_by_side(left, right, half))


def key_lines(columns: int, first: str = "") -> tuple[Line, ...]:
    """Return the keys, grouped by where they work; those of the screen named ``first`` first."""
    lines: list[Line] = []
    for place in sorted(dict.fromkeys(key.where for key in KEYS), key=lambda place: first not in place.split(", ")):
        lines.append(heading(f"Keys: {place}"))
        for key in KEYS:
            if key.where == place:
                lines += _row(key.keys, key.what, columns, "key", _KEY_COLUMNS)
        lines.append(BLANK)
    return tuple(lines)


def word_lines(columns: int) -> tuple[Line, ...]:
    """Return the glossary and the pointers to further reading."""
    lines: list[Line] = []
    for title, rows in (("Words", WORDS), ("More", MORE)):
        lines.append(heading(title))
        for name, what in rows:
            lines += _row(name, what, columns, "accent", _WORD_COLUMNS)
        lines.append(BLANK)
    return tuple(lines)


def _row(name: str, what: str, columns: int, style: str, width: int) -> list[Line]:
    lines: list[Line] = []
    for number, line in enumerate(wrapped(what, columns - width - 2)):
        lines.append((Span("  "), Span(fit_text(name if number == 0 else "", width), style), *line))
    return lines
