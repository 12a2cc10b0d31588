"""Decide whether a log continues after an error text, which means that the script caught and printed the error.

The following lines of the same rank decide. If the script's own words surround the text, a few ordinary lines are enough. A
text on its own may be the end of a traceback whose beginning is missing: it needs training progress. After a complete
traceback, progress alone proves nothing: a failing script writes its buffered output at the end. Then the script's own words
must say that it continues ("retrying", "training done"), or the progress must return to an earlier step: the log is appended to
(``>>``), and a later start wrote it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from gputop.doctor.logs.lines import clean, rank_and_text

ORDINARY_LINES = 3
"""Ordinary lines needed after a text that the script's own words surround."""
PROGRESS_LINES = 5
"""Lines of progress needed after a text on its own."""
FOLLOWING_LINES = 2
"""Lines of progress needed after a complete traceback."""
LINES_MAX = 200
"""Lines examined after the text."""
OPEN_MAX = 16
"""Texts followed at the same time."""
SORTED_LINES = 1000
"""Lines after an error that are sorted into ordinary and other lines; all later ones count as ordinary. The 8 KiB that Python
may have buffered when the script failed hold fewer lines.
"""
LAST_BYTES = 4096
"""How much of the end of a piece without known texts is searched for its last line."""
_EXCEPTION = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*(?:Error|Exception)\b")
_OWN_WORDS = re.compile(r"[A-Za-z]{2}.*[(\s:=-]")
_IN_BRACKETS = re.compile(r"^[A-Z][a-z]{2,20}(?: [a-z]{1,20}){0,4}:? \(.{1,2000}\)\.?$")
"""What a script says of an error, with its message in brackets: "Skipped (...)"."""
_LOGGED = re.compile(r"^(?:terminate called|what\(\)|Exception in thread|E  )|(?:^|\W)(?:ERROR|CRITICAL|FATAL|error)\W")
"""What may also precede an uncaught exception: the message of an abort, or a log level."""
_NO_LINE_OF_ITS_OWN = re.compile(
    r"^(?:.*(?:Error|Exception|error:)|\s*(?:$|frame #|#\d+ |Exception raised from|\*{3}|={5}|-{5}|\[[A-Z]\d|[WEF]\d{4} "
    # torch's C++ code, and Python trainers that use absl, log in glog's form.
    r"|I\d{4} (?!.*\.py:\d)|terminate called|what\(\)|wandb:|srun:|slurmstepd|make|Aborted|Killed|Segmentation fault"
    r"|Fatal Python error|\S+\.so\b|/\S+:\d+: \w*Warn))"
)
_OF_AN_END = re.compile(r'^\s+File "|^(?:Current thread|Thread) 0x|\bNCCL (?:INFO|WARN)\b')
"""What faulthandler and NCCL print when a process ends: dozens of lines per rank."""
_PROGRESS = re.compile(
    # In other languages, as in ``tracking.printed.languages``: each line contains the epoch.
    r"(?i)\b(?:epoch|step|iter(?:ation)?|batch|loss|epoche|[ée]poque|[ée]poca|эпох[аи])\b\D{0,3}\d"
    r"|(?:轮次|エポック|에포크|에폭)\D{0,3}\d|\d\s?it/s|\d\s?s/it|^[\s\[]{0,4}it\b\D{0,3}\d|\bit=\d"
    # A count of a total at the beginning, and a metric after it.
    r"|^[\s\[]{0,8}\d{1,9}/\d{2,9}\b(?!/)[^a-z]{1,20}[a-z]\w{0,20}[ :=]{1,3}-?\d{1,9}\.\d"
)


_REPLACED = re.compile(r"(?i)\b(?:re(?:start|spawn)ing|respawned|replac(?:ed|ing) it)\b")
"""A pool says in one line that a process of its own crashed, and that another one takes its place."""
_SERVED = re.compile(r'"(?:GET|POST|PUT|PATCH|DELETE) /\S{0,400} HTTP/[\d.]{1,3}" 2\d\d\b')
"""A request that a server has answered successfully."""
_HANDLED = re.compile(
    r"(?i)\b(?:retry(?:ing)?|retries|try(?:ing)? again|recover(?:ed|ing)|caught|skipping|falling back|ignoring"
    r"|(?:going on|continuing|proceeding|carrying on) (?:with(?:out)?|after|anyway))\b"
)
_ENDED_WELL = re.compile(
    r"(?i)\b(?:training|run|fit|epochs?|all|job|trials?|folds?|search|sweep|study|tuning)\b.{0,20}\b(?:done|finished|completed?)\b"
    r"|(?:^|\bINFO\b\W{1,4})\s*(?:done|finished)\b"
)


_EPOCH = re.compile(r"(?i)\bepoch\b\D{0,3}(\d{1,12})")
_STEP = re.compile(r"(?i)\b(?:step|iter(?:ation)?|batch)\b\D{0,3}(\d{1,12})")
_TESTS = re.compile(r"(?i)\b(?:val|eval|test)")
_RESUMED = re.compile(r"(?i)\bresum(?:e|ed|ing)\b|\b(?:load(?:ed|ing)|restor(?:ed|ing)) (?:\w+ )?(?:checkpoint|weights)\b")
STEPS_BACK = 3
"""The lines of several ranks may be out of order by less than this."""
BEGINNING_STEPS, BEGINNING_SHARE = 10, 0.25
"""A start from scratch begins at one of the first steps, or in the first quarter of the steps reached so far (our choice)."""
Position = tuple[int | None, int | None]
"""The epoch and step of a line of progress."""
_GOES_ON = re.compile(
    r"(?i)\b(?:saved|saving|written|wrote|uploaded|finished|completed?|done|succe(?:ss|ssful|ssfully|eded)|cleanly|results?"
    r"|ignored|accuracy)(?![\w-])"
    r"|\b(?:top-?[15]|acc|f1|wer|cer|bleu|rouge|m?iou|map|auc|ppl|perplexity|psnr|score|reward)\b\D{0,3}\d"
)
"""What a script prints if it continues or succeeds: what it has measured or stored."""
_BADLY = re.compile(r"(?i)fail|error|abort|kill|cancel|\bcore\b|exit(?:ed|ing)? (?:code|status)|\bnot\b|\blogs?\b")
_HANDLED_WORDS = (
    "retr",
    "try",
    "recover",
    "caught",
    "skipping",
    "falling back",
    "ignoring",
    "going on",
    "continuing",
    "proceeding",
    "carrying on",
)
_ENDED_WELL_WORDS = ("done", "finished", "complete")


@dataclass(slots=True)
class _Text:
    """A known text, and what follows it."""

    number: int
    quoted: bool
    key: int | str | None
    whole: bool
    own_words: bool = False
    logged_at: float | None = None
    lines: int = 0
    before: Position | None = None
    served: int = 0
    ordinary: int = 0
    progress: int = 0
    back: int = 0
    resumed: bool = False
    final: bool = False
    """Whether another error follows: then only another start can show that the run survived."""

    @property
    def followed(self) -> bool:
        """Whether progress follows a whole traceback."""
        return self.whole and not self.final and self.progress >= FOLLOWING_LINES

    @property
    def of_an_earlier_start(self) -> bool:
        """Whether progress returned to an earlier step before it continued."""
        return self.back >= FOLLOWING_LINES

    @property
    def went_on(self) -> bool:
        if self.final or self.of_an_earlier_start:
            return self.of_an_earlier_start
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
        before: Position | None = None,
        resumed: bool = False,
        caught: bool = False,
    ) -> None:
        """Start to follow a text found in this line.

        Args:
            number: The number by which the owner identifies the text.
            line: The line that contains it.
            key: Who wrote the line.
            whole: It is a complete traceback.
            own_words: Words that say that the script continues have already followed.
            logged_at: When a logger wrote it: later progress is then no buffered output.
            before: The last progress before it, if known.
            resumed: A line after it said that training continues from a checkpoint.
            caught: It is the traceback of an error that was caught, and printed.
        """
        if len(self._open) < OPEN_MAX:
            is_quoted, whole = caught or (not whole and quoted(line)), whole and not caught
            self._open.append(_Text(number, is_quoted, key, whole, own_words, logged_at, before=before, resumed=resumed))

    def failed(self) -> list[int]:
        """Handle a traceback or a launcher's summary: return the texts before it, which may well have ended the run."""
        before = [item.number for item in self._open if not item.final]
        for item in self._open:
            item.final, item.progress, item.back = True, 0, 0
        return before

    def line(self, text: str, key: int | str | None = None, time: float | None = None) -> list[tuple[int, bool, bool]]:
        """Process a following line, written at ``time``.

        Return the texts that progress now follows, whether the run has certainly continued, and whether in another start.
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
            # Buffered output continues where the progress before the text stopped.
            item.resumed = item.resumed or (ordinary and says_resumed(text))
            if progress and item.before is not None and item.progress == item.back:
                item.back += goes_back(item.before, position_of(text), item.resumed or item.back > 0)
            item.progress += progress
            if item.went_on or (item.followed and not before):
                settled.append((item.number, item.went_on, item.of_an_earlier_start))
            if item.went_on or item.lines >= LINES_MAX:
                self._open.remove(item)
        return settled


class Tail:
    """Counts the lines after errors that do not belong to an ending: neither progress nor reports of ranks and launchers about
    it."""

    def __init__(self) -> None:
        self.plain = 0
        self.progress = 0
        """Lines of progress; of those far from any error, one per piece is counted."""
        self._left = 0

    def error(self) -> None:
        """Start to sort the following lines."""
        self._left = SORTED_LINES

    def line(self, text: str) -> None:
        """Count a line that does not belong to an error."""
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
    """Return whether a line reports that an error was handled, or that the run succeeded."""
    return says_handled(text) or (_holds(text, _ENDED_WELL_WORDS) and _ENDED_WELL.search(text) is not None)


def says_handled(text: str) -> bool:
    """Return whether a line says that an error was handled. Such words may also come before the error."""
    return _holds(text, _HANDLED_WORDS) and _HANDLED.search(text) is not None


def says_replaced(text: str) -> bool:
    """Return whether a line about a process that died says that another one takes its place."""
    return _REPLACED.search(text) is not None


def _holds(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a text contains one of these words, in any case. For most texts, this is far faster than an expression."""
    text = text.lower()
    return any(word in text for word in words)


@lru_cache(8)
def is_ordinary(text: str) -> bool:
    """Return whether the script itself wrote a line, and it is neither an error nor a report of how the process ended."""
    return _NO_LINE_OF_ITS_OWN.match(text) is None


@lru_cache(8)  # several callers ask about the same line
def is_progress(text: str) -> bool:
    """Return whether a line reports training progress."""
    return is_ordinary(text) and _PROGRESS.search(text) is not None


def may_be_last(text: str) -> bool:
    """Return whether a line leaves the run's end open: it is neither progress nor a result."""
    return not (is_progress(text) or says_went_on(text) or _goes_on(text))


def _goes_on(text: str) -> bool:
    return is_ordinary(text) and _GOES_ON.search(text) is not None and _BADLY.search(text) is None


def says_resumed(text: str) -> bool:
    """Return whether a line says that training continues from a checkpoint."""
    return _RESUMED.search(text) is not None


def position_of(text: str) -> Position | None:
    """Return the epoch and the step that a line of progress shows; None if it shows neither, or belongs to an evaluation."""
    epoch, step = _EPOCH.search(text), _STEP.search(text)
    if (epoch is None and step is None) or _TESTS.search(text) is not None:
        return None
    return (int(epoch[1]) if epoch else None), (int(step[1]) if step else None)


def last_position(data: bytes) -> Position | None:
    """Return the position of the last line of progress among complete lines."""
    for line in reversed(data.splitlines()):
        text = rank_and_text(clean(line))[1]
        if is_progress(text):
            return position_of(text)
    return None


def goes_back(before: Position, after: Position | None, resumed: bool) -> bool:
    """Return whether progress belongs to another start: where training begins, or was ``resumed`` from a checkpoint.

    A rank's buffered output may also be older than what another rank has printed.
    """
    if after is None or [item is None for item in before] != [item is None for item in after]:
        return False
    epochs, steps = ((then or 0, now or 0) for then, now in zip(before, after, strict=True))
    if after[0] is not None and epochs[1] != epochs[0]:
        return epochs[1] < epochs[0] and (resumed or epochs[1] <= 1)
    least = steps[0] - STEPS_BACK if resumed else max(BEGINNING_STEPS, steps[0] * BEGINNING_SHARE)
    return steps[1] <= min(least, steps[0] - STEPS_BACK)


def quoted(line: str) -> bool:
    """Return whether an exception in a line follows the script's own words."""
    found = _EXCEPTION.search(line)
    if found is None:
        return _IN_BRACKETS.match(line.strip()) is not None
    before = line[: found.start()].strip()
    return _LOGGED.search(f"{before} ") is None and _OWN_WORDS.match(f"{before} ") is not None
