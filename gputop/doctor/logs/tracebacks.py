"""Follows one traceback line by line: its frames and the user's own line among them, its exception and the message. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gputop.doctor.logs.after import Position, is_progress, says_resumed, says_went_on
from gputop.doctor.logs.lines import starts_anew

TRACEBACK = "Traceback (most recent call last):"
BEGIN = re.compile(
    r"(?:Traceback \(most recent call last\):(?: \(RANK \d{1,6}\))?"
    r"|^[A-Za-z_][\w.]{0,200} {2,200}Traceback \(most recent call last\))\s*$"
)
"""The first line as Python writes it, as a coordinator does for a rank, and as a notebook does, which names the exception."""
OF_A_RANK = re.compile(r"\(RANK \d{1,6}\)\s*$")
"""torch.distributed.checkpoint writes the frames of each rank into the message of one exception (checkpoint/api.py, 2.0 on)."""
_SOURCE = re.compile(r"^\s{1,200}(?:raise [A-Za-z_][\w.]{0,200}\(|assert )")
MESSAGE_LINES = 40
"""A message has at most this many lines; what follows is not part of it."""
MESSAGE_CHARS = 400
"""Characters kept of a message after its first line."""
TRACEBACK_LINES = 400
"""A traceback that does not end within this many of its rank's lines is discarded."""
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$')
_NOTEBOOK = re.compile(
    r"^(?:File )?(?P<file>[~./\w]\S{0,400}\.py):(?P<line>\d+), in (?P<function>[\w.<>]+)"
    r"|^(?:Cell|Input) In ?\[(?P<cell>\d+)\], line (?P<cell_line>\d+)"
)
"""A frame as IPython writes it, of a file or a cell."""
_EXCEPTION = re.compile(r"^\s{0,2}(?P<type>[A-Za-z_](?:[\w.]|<locals>)*)(?::\s?(?P<message>.*))?$")
_EXCEPTION_NAME = re.compile(r"(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Failure|Unreachable|NotFound|Stop\w{0,40})$")
_OF_A_SHELL = re.compile(  # directly after the exception
    r"/[\w./+@-]{0,200}\s*$|(?:\(\w{1,40}\) )?(?:\[?[\w.-]{1,60}@[^$#]{1,100}[$#]|\$) "
)
"""What the shell prints next: its prompt, or only a path, as pwd does. A path that belongs to a message is announced by it."""
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|<frozen|<string>")
_STOPPED = ("KeyboardInterrupt", "SignalException", "SystemExit", "GeneratorExit", "BdbQuit")


@dataclass(slots=True)
class Traceback:
    """The traceback that a rank is writing."""

    number: int
    weak: bool = False
    lines: int = 0
    where: str | None = None
    fallback: str | None = None
    exception: str | None = None
    exception_at: int = 0
    first: str | None = None
    """The first exception of its chain."""
    cause: str | None = None
    """The exception before the last one of its chain, if Python calls it the direct cause."""
    message_lines: int = 0
    known: bool = False
    in_message: bool = False
    own_words: bool = False
    announced_by: str = ""
    """The logger and the level of the line before it, without numbers, if it is a logger's."""
    headless: bool = False
    """Its beginning is missing."""
    notebook: bool = False
    """It has IPython's form: what follows was printed later."""
    message: list[str] = field(default_factory=list)
    """The lines of its message after the first."""
    cut: bool = False
    """It starts in the middle of a line of buffered output."""
    begin: str = ""
    """Its first line, until a frame is seen."""
    rank: int | None = None
    quote: str = ""
    """The margin or spaces before each of its lines, if the script itself quotes it."""
    logged_at: float | None = None
    """The time in its first line, if a logger wrote it."""
    before: Position | None = None
    """The last progress before it."""
    frames: int = 0
    """How many frames it has, those of a chain included."""
    function: str = ""
    """The function of the last one."""
    resumed: bool = False
    """Whether a line in its message, or after it, says that training continues from a checkpoint."""

    @property
    def place(self) -> str | None:
        """The innermost line of the user's own code, otherwise that of a library."""
        return self.where or self.fallback

    @property
    def is_caught(self) -> bool:
        """Whether its only frame is in a function of a library: that of an uncaught error begins where the program began."""
        return self.frames == 1 and self.where is None and self.function not in ("", "<module>")

    @property
    def ends_within(self) -> bool:
        """Whether it has frames but no exception yet."""
        return self.exception is None and self.fallback is not None and not self.weak

    def chain(self, inner: bool, caused: bool) -> None:
        """Continue with another traceback of the same chain; ``inner``: with a worker's, which it quotes.

        ``caused``: the exception so far is the direct cause of the next one.
        """
        self.first = self.first or self.exception
        self.cause = self.exception if caused else None
        self.in_message, self.lines, self.message_lines = False, 0, 0
        if not inner:
            self.where = self.fallback = None

    def extend(self, text: str, at: int, chained: bool) -> bool:
        """Add a line, number ``at`` of the log. Return whether the traceback continues.

        ``chained``: the words that announce another traceback of the same chain have arrived.
        """
        if not self.in_message and self._frame(text):
            return True
        if self.in_message:
            return self._message(text, chained)
        if text[:1] in (" ", "\t") and self.exception is None:
            return self.lines <= TRACEBACK_LINES
        exception = _EXCEPTION.match(text)
        if exception is not None and (
            _EXCEPTION_NAME.search(exception["type"]) or "." in exception["type"] or (self.lines > 1 and not self.headless)
        ):
            self.exception, self.exception_at, self.message = text.strip(), at, []
            self.in_message, self.message_lines = True, 0
            self.known = self.known or exception["type"].rpartition(".")[2] in _STOPPED
            return True
        return self.lines <= TRACEBACK_LINES and not (self.headless and text.strip())

    def _frame(self, text: str) -> bool:
        frame = _FRAME.match(text) or _NOTEBOOK.match(text)
        if frame is None:
            return False
        groups = frame.groupdict()
        self.frames, self.function = self.frames + 1, (groups.get("function") or "").strip()
        if groups.get("cell"):
            place, own = f"cell {groups['cell']}, line {groups['cell_line']}", True
        else:
            name = re.split(r"[/\\]", frame["file"])[-1]
            place = f"{name}:{frame['line']} ({frame['function'].strip()})"
            own = _LIBRARY.search(frame["file"]) is None
        self.fallback, self.begin = place, ""
        if own:
            self.where = place
        return True

    def _message(self, text: str, chained: bool) -> bool:
        self.message_lines += 1
        if not text.strip():
            return True
        goes_on = self.message_lines <= MESSAGE_LINES and not starts_anew(text) and (chained or not is_progress(text))
        announced = (self.exception or "").rstrip().endswith((":", ",", "\\"))
        goes_on = goes_on and not (self.message_lines == 1 and not announced and _OF_A_SHELL.match(text))
        if goes_on and sum(map(len, self.message)) < MESSAGE_CHARS:
            self.message.append(text.strip())
        self.own_words = self.own_words or says_went_on(text)
        self.resumed = self.resumed or says_resumed(text)
        return goes_on


def is_source(text: str) -> bool:
    """Return whether a line is one of source code that would raise an exception: a traceback quotes it."""
    return _SOURCE.match(text) is not None


def is_frame(text: str) -> bool:
    """Return whether a line is a frame as Python writes it."""
    return _FRAME.match(text) is not None
