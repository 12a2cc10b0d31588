"""Decide whether a log goes on after an error text, which means that the script caught and printed the error.

Judged by the following lines of the same rank. A text quoted within the script's own words needs a few ordinary lines; a
text on its own may be the end of a traceback whose beginning is missing, and needs training progress. After a whole
traceback, progress alone is no proof: if a failing script's output is buffered, its earlier output is written at the end.
In that case the script's own words have to say so ("retrying", "training done").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from gputop.doctor.logs.lines import clean, rank_and_text

ORDINARY_LINES = 3
PROGRESS_LINES = 5
FOLLOWING_LINES = 2
"""Lines of progress needed after a whole traceback."""
LINES_MAX = 200
"""Lines examined after the text."""
OPEN_MAX = 16
"""Texts followed at a time."""
SORTED_LINES = 1000
"""Lines after an error that are sorted into ordinary ones and others; all later ones count as ordinary. What Python had
buffered when the script failed, 8 KiB, is less."""
LAST_BYTES = 4096
_EXCEPTION = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*(?:Error|Exception)\b")
_OWN_WORDS = re.compile(r"[A-Za-z]{2}.*[(\s:=-]")
_LOGGED = re.compile(r"^(?:terminate called|what\(\)|Exception in thread|E  )|(?:^|\W)(?:ERROR|CRITICAL|FATAL|error)\W")
"""What may also precede an uncaught exception: an abort's own words, a log level."""
_NO_LINE_OF_ITS_OWN = re.compile(
    r"^(?:.*(?:Error|Exception|error:)|\s*(?:$|frame #|#\d+ |Exception raised from|\*{3}|={5}|-{5}|\[[A-Z]\d|[WEF]\d{4} "
    # glog's form is that of torch's C++ code, and of trainers in Python that use absl.
    r"|I\d{4} (?!.*\.py:\d)|terminate called|what\(\)|wandb:|srun:|slurmstepd|make|Aborted|Killed|Segmentation fault"
    r"|Fatal Python error|\S+\.so\b|/\S+:\d+: \w*Warn))"
)
_OF_AN_END = re.compile(r'^\s+File "|^(?:Current thread|Thread) 0x|\bNCCL (?:INFO|WARN)\b')
"""What faulthandler and NCCL print as a process ends, dozens of lines for each rank."""
_PROGRESS = re.compile(r"(?i)\b(?:epoch|step|iter(?:ation)?|batch|loss)\b\D{0,3}\d|\d\s?it/s|\ds/it")


_SERVED = re.compile(r'"(?:GET|POST|PUT|PATCH|DELETE) /\S{0,400} HTTP/[\d.]{1,3}" 2\d\d\b')
"""A request that a server has answered well."""
_HANDLED = re.compile(
    r"(?i)\b(?:retry(?:ing)?|retries|try(?:ing)? again|recover(?:ed|ing)|caught|skipping|falling back|ignoring)\b"
)
_ENDED_WELL = re.compile(
    r"(?i)\b(?:training|run|fit|epochs?|all|job|trials?|folds?|search|sweep|study|tuning)\b.{0,20}\b(?:done|finished|completed?)\b"
    r"|^\s*(?:done|finished)\b"
)


_HANDLED_WORDS = ("retr", "try", "recover", "caught", "skipping", "falling back", "ignoring")
_ENDED_WELL_WORDS = ("done", "finished", "complete")


@dataclass(slots=True)
class _Text:
    number: int
    quoted: bool
    key: int | str | None
    whole: bool
    own_words: bool = False
    logged_at: float | None = None
    lines: int = 0
    served: int = 0
    ordinary: int = 0
    progress: int = 0

    @property
    def followed(self) -> bool:
        """Whether progress follows a whole traceback."""
        return self.whole and self.progress >= FOLLOWING_LINES

    @property
    def went_on(self) -> bool:
        if self.served >= PROGRESS_LINES:
            return True
        if self.whole:
            return self.followed and self.own_words
        return self.progress >= PROGRESS_LINES or (self.quoted and self.ordinary >= ORDINARY_LINES)


class Afterwards:
    """Follow the lines after error texts. The owner identifies each text by a number."""

    def __init__(self) -> None:
        self._open: list[_Text] = []

    @property
    def waiting(self) -> bool:
        """Whether another line may still change a result."""
        return bool(self._open)

    def follow(
        self,
        number: int,
        line: str,
        key: int | str | None = None,
        whole: bool = False,
        own_words: bool = False,
        logged_at: float | None = None,
    ) -> None:
        """Start to follow a text found in this line.

        ``key`` tells who wrote the line, ``whole`` marks a whole traceback. ``own_words``: words that tell that the
        script went on already followed. ``logged_at``: when a logger wrote it, so that progress of a later time is no
        output that was buffered.
        """
        if len(self._open) < OPEN_MAX:
            self._open.append(_Text(number, not whole and quoted(line), key, whole, own_words, logged_at))

    def failed(self) -> list[int]:
        """Handle a traceback or a launcher's summary: return the texts before it, which may well have ended the run."""
        before = [item.number for item in self._open]
        self._open.clear()
        return before

    def line(self, text: str, key: int | str | None = None, time: float | None = None) -> list[tuple[int, bool]]:
        """Process a following line, written at ``time``.

        Return the texts now followed by progress, and whether the run certainly went on.
        """
        settled = []
        ordinary = is_ordinary(text)
        progress = is_progress(text)
        served = ordinary and _SERVED.search(text) is not None
        for item in list(self._open):
            if item.key is not None and item.key != key:
                continue
            item.lines += 1
            later = progress and item.logged_at is not None and time is not None and time > item.logged_at
            item.own_words = item.own_words or later or (ordinary and says_went_on(text))
            item.served += served
            before = item.followed
            item.ordinary += ordinary
            item.progress += progress
            if item.went_on or (item.followed and not before):
                settled.append((item.number, item.went_on))
            if item.went_on or item.lines >= LINES_MAX:
                self._open.remove(item)
        return settled


class Tail:
    """Counts the lines after errors that belong to no ending: neither progress nor what ranks and launchers report of it."""

    def __init__(self) -> None:
        self.plain = 0
        self.progress = 0
        """Lines of progress: among those far from any error, only one is looked at in each piece."""
        self._left = 0

    def error(self) -> None:
        """Sort the lines that follow."""
        self._left = SORTED_LINES

    def line(self, text: str) -> None:
        """Count a line that is part of no error."""
        self._left -= self._left > 0
        if is_progress(text):
            self.progress += 1
        elif _NO_LINE_OF_ITS_OWN.match(text) is None and _OF_AN_END.search(text) is None:
            self.plain += 1

    def piece(self, data: bytes) -> None:
        """Count lines without any known text."""
        at = 0
        while self._left > 0 and (end := data.find(b"\n", at)) >= 0:
            self.line(rank_and_text(clean(data[at:end]))[1])
            at = end + 1
        if at < len(data):
            self.plain += data.count(b"\n", at)
            begin = max(at, data.rfind(b"\n", at, len(data) - 1) + 1, len(data) - LAST_BYTES)
            self.progress += is_progress(clean(data[begin:]))


def says_went_on(text: str) -> bool:
    """Return whether a line says that an error was handled, or that the run ended well."""
    return says_handled(text) or (_holds(text, _ENDED_WELL_WORDS) and _ENDED_WELL.search(text) is not None)


def says_handled(text: str) -> bool:
    """Return whether a line says that an error was handled. Such words may also come before the error."""
    return _holds(text, _HANDLED_WORDS) and _HANDLED.search(text) is not None


def _holds(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a text holds one of these words, in any case: in most texts far faster than an expression."""
    text = text.lower()
    return any(word in text for word in words)


@lru_cache(8)
def is_ordinary(text: str) -> bool:
    """Return whether a line is one of the script's own, and neither an error nor a report of how the process ended."""
    return _NO_LINE_OF_ITS_OWN.match(text) is None


@lru_cache(8)  # several ask about the same line
def is_progress(text: str) -> bool:
    """Return whether a line reports training progress."""
    return is_ordinary(text) and _PROGRESS.search(text) is not None


def quoted(line: str) -> bool:
    """Return whether an exception in a line follows the script's own words."""
    found = _EXCEPTION.search(line)
    if found is None:
        return False
    before = line[: found.start()].strip()
    return _LOGGED.search(f"{before} ") is None and _OWN_WORDS.match(f"{before} ") is not None
