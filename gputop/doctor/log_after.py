"""Whether a log goes on after an error text that stands in no traceback: then its script caught the error, and showed it.

Judged by the lines that follow. A text that is quoted in a line of the script's own words needs a few ordinary lines; one
that stands for itself may be the end of a traceback whose beginning is missing, and needs the progress of a training.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ORDINARY_LINES = 3
PROGRESS_LINES = 5
LINES_MAX = 200
"""So many lines after the text are looked at."""
OPEN_MAX = 16
"""So many texts at a time."""
_EXCEPTION = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*(?:Error|Exception)\b")
_OWN_WORDS = re.compile(r"[A-Za-z]{2}.*[(\s:=-]")
_LOGGED = re.compile(r"^(?:terminate called|what\(\)|Exception in thread|E  )|(?:^|\W)(?:ERROR|CRITICAL|FATAL|error)\W")
"""What stands before an exception that nobody caught as well: an abort's own words, a log's level."""
_NO_LINE_OF_ITS_OWN = re.compile(
    r"^\s*(?:$|frame #|#\d+ |Exception raised from|\*{3}|={5}|-{5}|\[[A-Z]\d|[WEIF]\d{4} |terminate called|what\(\)|wandb:"
    r"|srun:|slurmstepd|make|Aborted|Killed|Segmentation fault|Fatal Python error|\S+\.so\b|.*(?:Error|Exception|error:)"
    r"|/\S+:\d+: \w*Warn)"
)
_PROGRESS = re.compile(r"(?i)\b(?:epoch|step|iter(?:ation)?|batch|loss)\b\D{0,3}\d|\d\s?it/s|\ds/it")


@dataclass(slots=True)
class _Text:
    number: int
    quoted: bool
    lines: int = 0
    ordinary: int = 0
    progress: int = 0

    @property
    def went_on(self) -> bool:
        return self.progress >= PROGRESS_LINES or (self.quoted and self.ordinary >= ORDINARY_LINES)


class Afterwards:
    """Follows the lines behind error texts. Texts are known by a number that their owner gives."""

    def __init__(self) -> None:
        self._open: list[_Text] = []

    @property
    def waiting(self) -> bool:
        """Whether a line more may tell something."""
        return bool(self._open)

    def said(self, number: int, line: str) -> None:
        """A text was said, in this line."""
        if len(self._open) < OPEN_MAX:
            self._open.append(_Text(number, quoted(line)))

    def failed(self) -> None:
        """A traceback, or a launcher's summary: what was said before may well have ended the run."""
        self._open.clear()

    def line(self, text: str) -> list[int]:
        """Take in a line that follows, and return the texts of which it tells that the run went on."""
        settled = []
        ordinary = _NO_LINE_OF_ITS_OWN.match(text) is None
        progress = ordinary and _PROGRESS.search(text) is not None
        for item in list(self._open):
            item.lines += 1
            item.ordinary += ordinary
            item.progress += progress
            if item.went_on:
                settled.append(item.number)
            if item.went_on or item.lines >= LINES_MAX:
                self._open.remove(item)
        return settled


def quoted(line: str) -> bool:
    """Return whether an exception stands behind words of the script's own in its line."""
    found = _EXCEPTION.search(line)
    if found is None:
        return False
    before = line[: found.start()].strip()
    return _LOGGED.search(f"{before} ") is None and _OWN_WORDS.match(f"{before} ") is not None
