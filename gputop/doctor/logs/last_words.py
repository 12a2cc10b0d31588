"""The last words of a log that no known text and no traceback explains: the error line at its end.

Most failures have a known text or a traceback. Otherwise, a log that ends with an error, an exit code or a refusal at least
says what it was. At most a few lines follow, and none of them says that the script continued. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.logs import exits
from gputop.doctor.logs.after import is_ordinary, may_be_last
from gputop.doctor.logs.error_lines import Kind, exit_code_in
from gputop.doctor.logs.observation import Observation
from gputop.terminal_text import printable

TAIL_LINES = 30
"""Maximum number of lines that may follow, including reports of launchers and shells."""
KEPT = 8
"""How many error lines are kept."""
TITLE_CHARS = 100
"""How many characters of the line a title shows."""
FINDING_ID = "last_words"
_OF_A_SHELL = re.compile(
    r"(?P<script>[^/\s]{1,80}): line (?P<line>\d{1,6}): +\d{1,9} (?P<how>(?P<signal>Aborted|Hangup)(?:\s+\(core dumped\))?)"
)
"""How bash reports that a signal ended a command of a script (print_pipeline in jobs.c)."""
_CODES = {"Aborted": 134, "Hangup": 129}
_ENDS_WITH, _CUT = "The log ends with: ", "The log ends within a traceback"
_FOLLOWING: dict[Kind, int] = {"exception": 3, "cut": 0, "error": 1, "refusal": 3, "end": 3, "trouble": 0}
"""How many of the script's own lines may follow, such as a hint or a closing message. Most logged errors are handled."""
_CONFIDENCE: dict[Kind, Confidence] = {
    "exception": "likely",
    "cut": "likely",
    "refusal": "likely",
    "end": "likely",
    "error": "possible",
    "trouble": "possible",
}
"""Scripts continue after many lines of level ERROR; a log that ends there only suggests that this one did not."""


@dataclass(frozen=True, slots=True)
class Word:
    """An error line and its kind."""

    kind: Kind
    seen: Observation


class LastWords:
    """Keeps the error lines of a log as long as they may be its last ones."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self._left: list[int] = []
        """How many of the script's own lines may still follow each of them."""
        self._lines_left = 0

    @property
    def full(self) -> bool:
        """Whether no more lines are kept."""
        return len(self.words) >= KEPT

    @property
    def waiting(self) -> bool:
        """Whether the following lines matter."""
        return bool(self.words)

    def line(self, text: str) -> None:
        """Process a line that is not an error: progress, or the script's own lines, mean that the run has continued."""
        if not self.words:
            return
        self._lines_left -= 1
        if self._lines_left <= 0 or not may_be_last(text):
            self.clear()
        elif is_ordinary(text) and " NCCL INFO " not in text:
            kept = [(word, left - 1) for word, left in zip(self.words, self._left, strict=True) if left > 0]
            self.words, self._left = [word for word, _ in kept], [left for _, left in kept]

    def renew(self) -> None:
        """Note another error line, which is not kept."""
        self._lines_left = TAIL_LINES

    def add(self, kind: Kind, seen: Observation) -> None:
        """Keep an error line."""
        self.renew()
        if not self.full:
            self.words.append(Word(kind, seen))
            self._left.append(_FOLLOWING[kind])

    def clear(self) -> None:
        """Forget the errors that the run has survived."""
        self.words, self._left = [], []


def first_word(words: Sequence[Word]) -> Word | None:
    """Return the most informative line: the first one that does more than report how a process ended."""
    return next((word for word in words if word.kind != "end"), words[0] if words else None)


def says_no_cause(finding: Finding) -> bool:
    """Return whether a finding on the last words only shows how the log ends: cut off, or with an exit code."""
    return finding.id == FINDING_ID and finding.title.startswith((_ENDS_WITH, _CUT))


def finding_of(word: Word, short: str, place: str) -> Finding:
    """Return the finding for a log that ends with this line; ``short`` is the line as shown."""
    text = short if len(short) <= TITLE_CHARS else f"{short[: TITLE_CHARS - 1]}…"
    if word.kind == "end":
        shell = _OF_A_SHELL.search(word.seen.line)
        if shell is not None and len(short) > TITLE_CHARS:  # the path or the command would hide how it ended
            text = f"{shell['script']}: line {shell['line']}: {' '.join(shell['how'].split())}"
        title, cause = f"{_ENDS_WITH}{text}", "It shows how the process ended, and nothing before it shows why."
        code = exit_code_in(word.seen.line) or (_CODES[shell["signal"]] if shell is not None else None)
        meaning = exits.meaning_of(code) if code is not None else None
        if meaning is not None:
            by = f"Exit code {code}" if shell is None else shell["signal"]
            return Finding(
                id=meaning.id or FINDING_ID,
                severity="error",
                confidence=meaning.confidence,
                title=title,
                evidence=(Fact(short, short, place),),
                cause=f"{by} stands for {meaning.name}. {meaning.cause}",
                fix=meaning.fix,
                refuted_by=meaning.refuted_by,
            )
    elif word.kind == "trouble":
        title = f"The log ends near: {text}"
        cause = "Nothing before it shows why; it may be the reason, or only show how the run ended."
    elif word.kind == "cut":
        title = f"{_CUT}{f' at {word.seen.where}' if word.seen.where else ''}"
        cause = "Its last line, which names the exception, is missing: the log was cut, or the process was killed meanwhile."
    else:
        title, cause = f"The log ends with an error: {text}", f"{short}. Nothing but a few lines follows it."
    return Finding(
        id=FINDING_ID,
        severity="warning" if word.kind == "trouble" else "error",
        confidence=_CONFIDENCE[word.kind],
        title=title,
        evidence=(Fact(short, short, place),),
        cause=cause,
        fix=printable(f"# read {place} and the lines before it"),
        refuted_by="The run ended with exit code 0, or continues: then it survived this line.",
    )
