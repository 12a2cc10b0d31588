"""The last words of a log that no known text and no traceback explains: the error line at its end.

Most failures have a known text or a traceback. Otherwise, a log that ends with an error, an exit code or a refusal at least
says what it was. At most a few lines follow, and none of them says that the script continued. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.logs import exits
from gputop.doctor.logs.after import is_ordinary, is_progress, says_went_on
from gputop.doctor.logs.lines import is_warning
from gputop.doctor.logs.observation import Observation

TAIL_LINES = 30
"""How many lines may follow in all, including reports of launchers and shells."""
KEPT = 8
TITLE_CHARS = 100
"""How many characters of the line a title shows."""
FINDING_ID = "last_words"
_OF_REFUSAL = (
    *("ermission denied", "verification failed", "bad interpreter", "syntax error", "unbound variable", "Lmod has detected"),
    *(
        "rror response from",
        "Failed to pull image",
        "FailedScheduling",
        "Evicted",
        "No space left on device",
        "curl: (",
        "tar: ",
    ),
    *("Unable to locate credentials", "MPI_ABORT was", "not enough slots", "Assertion `"),
)
_OF_END = (
    *("xit code", "xit Code", "xited with code", "exit with status code", "non-zero status", "terminated by signal"),
    *("Aborted", "Hangup", "make: *** ", "make[1]: *** "),
)
_OF_LEVEL = ("ERROR", "FATAL", "CRITICAL", "level=error", '"level":"error"', '"level": "error"', "NCCL WARN")
TRIGGERS = (
    *("Error: ", ": error: ", "atal: ", "xception: ", "NotFound: ", "panicked at", "Check failed: ", ".cc:", ".cpp:"),
    *(*_OF_REFUSAL, *_OF_END, *_OF_LEVEL),
)
"""A line of last words contains one of these literals."""
NARROWER = {
    ".cc:": r"(?:\b[EF]\d{3,4} \d\d:|\bF [\w./-]{1,200}\.cc:)",
    ".cpp:": r"\b[EF]\d{3,4} \d\d:",
    "xit code": r"xit code:? {1,8}-?[1-9]",
    "xit Code": r"xit Code:? {1,8}-?[1-9]",
    "xited with code": r"xited with code {1,8}-?[1-9]",
}
"""Expressions that replace literals that ordinary lines also contain."""
Kind = Literal["exception", "cut", "error", "refusal", "end", "trouble"]
_FOLLOWING: dict[Kind, int] = {"exception": 3, "cut": 0, "error": 1, "refusal": 3, "end": 3, "trouble": 0}
"""How many of the script's own lines may follow: a hint, or what it prints as it ends. Most logged errors are handled."""
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]{0,120}): (?=\S)")
_EXCEPTION_ENDS = ("Error", "Exception", "NotFound")
_METRIC_ENDS = ("SquaredError", "AbsoluteError", "PercentageError", "LogarithmicError", "LogError")
"""Losses and metrics that are named "error"."""
_REFUSAL = re.compile(
    r"\b[Pp]ermission denied(?: \([\w,-]+\))?\.?$|\bHost key verification failed\.?$|: bad interpreter: |\bsyntax error near "
    r"|: unbound variable$|^Lmod has detected the following error|\b[Ee]rror response from daemon: "
    r"|\bNo space left on device$|^curl: \(\d+\) |^tar: .{0,200}\b(?:Error|EOF)\b|\bUnable to locate credentials\b"
    r"|\bMPI_ABORT was invoked on rank \d|\bnot enough slots available\b|: Assertion `.{1,200}' failed"
    r"|\bFailed to pull image |\bFailedScheduling\b|\bReason: +Evicted\b"
)
_END = re.compile(
    r"\b(?:[Ee]xit [Cc]ode:?|exited with code|finished with exit code) +(?P<code>-?[1-9]\d{0,11})\b|\bnon-zero status\b"
    r"|\bexit with status code [1-9]|^(?:Aborted(?: \(core dumped\))?|Hangup)$"
    r"|: line \d{1,6}: +\d{1,9} (?:Aborted|Hangup)\b"
    r"|\bterminated by signal \w+|^make(?:\[\d+\])?: \*\*\* .{1,200}\bError [1-9]"
)
_LEVEL = re.compile(
    r"(?:^|[\s\[|(:\"-])(?:ERROR|CRITICAL|FATAL)(?=[\]\s:|)\"-])|\blevel=error\b|\"level\": ?\"error\"|\bNCCL WARN\b"
)
_SAID = re.compile(
    r"^(?:[^\s:]{1,80}: |\([^()]{1,60}\) )?(?:[Ff]atal|[Ff]atal error|[Ee]rror): |^\[?[EF]\d{3,4} \d\d:\d\d[^\]]{1,100}\] "
    r"|^F [^\]]{1,100}:\d+\] "
)
_NO_ERROR = re.compile(
    r"(?i)\b(?:0|no|zero) errors?\b|\berrors?\b(?: count)?\W{0,3}(?:is |was |were )?(?:none|zero|0)\b"
    r"|\berrors?\b(?: count)?\W{0,3}(?:is |was |were )?no\b(?=\W{0,3}(?:$|[,;|)]))"
    r"|\berror (?:count|rate|bars?)\b"
    # These clients of trackers and repositories report what they leave out.
    r"|^wandb: |^fatal: not a git repository"
)
_IGNORED = re.compile(r"(?i)\bignor(?:ed|ing)\b")
_GOES_ON = re.compile(
    r"(?i)\b(?:saved|saving|written|wrote|uploaded|finished|completed?|done|succe(?:ss|ssful|ssfully|eded)|cleanly|results?"
    r"|ignored|accuracy)(?![\w-])"
    r"|\b(?:top-?[15]|acc|f1|wer|cer|bleu|rouge|m?iou|map|auc|ppl|perplexity|psnr|score|reward)\b\D{0,3}\d"
)
"""What a script prints if it continues or succeeds: what it has measured or stored."""
_BADLY = re.compile(r"(?i)fail|error|abort|kill|cancel|\bcore\b|exit(?:ed|ing)? (?:code|status)|\bnot\b|\blogs?\b")
_REFUSED = re.compile(
    r": (?:No such file or directory|Is a directory|Not a directory|Input/output error|Read-only file system"
    r"|Cannot allocate memory|Resource temporarily unavailable|Stale file handle|Device or resource busy|[Ee]xec format error"
    r"|Connection refused|Connection timed out|No route to host|Network is unreachable|Argument list too long"
    r"|Operation not permitted|Transport endpoint is not connected)\.?$"
    r"|^(?:client_loop|packet_write_wait): .{0,200}\bBroken pipe$|\bclosed by remote host\.?$|\bGPU is lost\b"
)
"""What the system's programs print about a failed call."""
_RAISED = re.compile(r"^(?P<modules>(?:[a-z_]\w{0,60}\.){1,8})(?P<name>[A-Z]\w{0,80})(?:: (?=\S)|$)")
_ERROR_MODULE = re.compile(r"(?:^|\.)(?:exceptions?|errors?|exc)\.")
_OTHER_ENDS = ("Failure", "Interrupt", "Timeout", "Unreachable", "Unavailable", "Denied")
_NO_FAILURE = ("Warning", "TrialPruned", "Exit")
_TROUBLE = re.compile(
    r"^Error (?:in|while|during|\w+ing)\b(?!.{0,100}[:=] ?-?\d[\d.e+-]{0,20} ?%?$)|\b[Aa]n error occurred\b"
    r"|\b(?:failed(?:[.:!](?=\s|$)|$)|[Ff]ailed to\b|failed (?:with|because)\b"
    r"|(?:[Uu]nable to|[Cc]annot|[Cc]an't|[Cc]ould not|[Cc]ouldn't|unexpectedly|interrupted"
    r"|[Pp]reempted|[Pp]reemption (?:notice|signal)|not ready|unreachable)\b)(?! ?[:=]? ?\d)"
)
_RULE = re.compile(r"^-{40,200}$")
"""The line above and below a box of help."""
_HARMLESS = re.compile(
    # Nothing failed, or only some of the data.
    r"(?i)\b(?:0|no|none|nothing|zero)(?: [\w-]{1,40}){0,4} (?:failed|interrupted|preempted|unreachable|error occurred)\b"
    r"|\b(?:not|never)(?: been)? (?:failed|interrupted|preempted|unreachable)\b|\bfailed\W{1,3}(?:no|none|zero|false)\b"
    r"|\b\d{1,12} (?:of \d{1,12} )?(?!(?:workers|ranks|processes|nodes|tasks|jobs|actors|gpus)\b)[a-z]{1,40}s failed\b"
    r"|\bearly ?-?stop|\bpatience\b|\b(?:cannot|can't|could not|unable to) (?:be )?(?:improve|decrease|increase)"
    # The script does without it.
    r"|[,;:(.-] {0,2}(?:so |now )?(?:using|running)\b|\bwill use\b|\bfall(?:s|ing|en)? ?back\b|\binstead\b"
    r"|\bdefault(?:s|ing) to\b|\boffline mode\b|\b(?:disabling|skipped|skipping|continuing|proceeding|optional)\b"
    r"|^(?:note|info|hint|tip): "
)
"""What is not trouble: outcomes, and what a script can do without."""
_MILD = re.compile(r"(?:^|[\s\[|(:-])(?:INFO|DEBUG|TRACE|NOTE|NOTICE)(?=[\]\s:|)-])")
_DONE = re.compile(
    r"(?i)\b(?:training|fine-?tuning|fit(?:ting)?|run|job|script|experiment)\b:?"
    r"(?: (?!not\b|never\b|epoch\b)[a-z-]{1,40}){0,2} (?:done|finished|completed?)\b"
    r"|^\W{0,8}(?:all )?(?:done|finished)\b\W{0,3}(?:$|in\b|after\b)"
)
"""A script's last message: later lines did not end the training."""
TAIL_BYTES = 4096
REFUSED_FOLLOWING, TROUBLE_FOLLOWING = 3, 1
"""How many of the script's own lines may follow trouble at the end of a log."""
_WORD = re.compile(r"[A-Za-z]{3}")
_WORDS_MIN = 2
"""A metric named "error" has a number; an error has words."""
_DIGITS = str.maketrans("23456789", "11111111")
_LEVEL_WITHIN = 100
"""A level is within this many characters of the line's beginning."""
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


def kind_of(text: str) -> Kind | None:
    """Return the kind of a line as the last word of a log; None if it says nothing."""
    # A log with thousands of errors has few forms of them. The expressions here distinguish no digits except 0.
    return _kind_of_form(text.translate(_DIGITS))


@lru_cache(256)
def _kind_of_form(text: str) -> Kind | None:
    if "gnor" in text and _IGNORED.search(text) is not None:
        return None
    if _holds(text, _OF_REFUSAL) and _REFUSAL.search(text) is not None:
        return "refusal"
    exception = _EXCEPTION.match(text)
    if exception is not None and _names_an_error(exception[1]) and exception[1].rpartition(".")[2][:1].isupper():
        return "exception" if exception[1] not in ("Error", "Exception") else "error" if _says(text, exception.end()) else None
    if _holds(text, _OF_END) and _END.search(text) is not None:
        return "end"
    found = _SAID.match(text)
    if found is None and _holds(text, _OF_LEVEL):
        found = _LEVEL.search(text[:_LEVEL_WITHIN])
    return "error" if found is not None and _says(text, found.end()) and _NO_ERROR.search(text) is None else None


def _holds(text: str, literals: tuple[str, ...]) -> bool:
    """Return whether a text contains one of these literals. For most texts, this is far faster than an expression."""
    return any(literal in text for literal in literals)


def trouble_in(texts: Sequence[str]) -> int | None:
    """Return which of a log's last lines is the first sign of trouble after its last progress; None if there is none."""
    boxed = _box_at_end(texts)
    if boxed is not None:
        return boxed
    following, told, refused = 0, None, None
    for at in range(len(texts) - 1, -1, -1):
        text = texts[at]
        if following > REFUSED_FOLLOWING:
            break
        if not may_be_last(text):
            return refused if _DONE.search(text) is not None else told
        if _is_harmless(text):
            pass
        elif _is_refusal(text):
            told = refused = at
        elif following <= TROUBLE_FOLLOWING and _is_trouble(text):
            told = at
        following += is_ordinary(text)
    return told


def _box_at_end(texts: Sequence[str]) -> int | None:
    """Return the first line of the help box that a launcher such as Open MPI's ends with, if it reports trouble."""
    if not texts or _RULE.match(texts[-1]) is None:
        return None
    above = next((at for at in range(len(texts) - 2, -1, -1) if _RULE.match(texts[at]) is not None), len(texts))
    first = texts[above + 1 : above + 2]
    return above + 1 if first and not _is_harmless(first[0]) and (_is_refusal(first[0]) or _is_trouble(first[0])) else None


def _is_refusal(text: str) -> bool:
    return _REFUSED.search(text) is not None or _is_raised(text)


def _is_trouble(text: str) -> bool:
    return _TROUBLE.search(text) is not None and len(_WORD.findall(text)) >= _WORDS_MIN


def _is_harmless(text: str) -> bool:
    if is_warning(text) or _IGNORED.search(text) is not None or _NO_ERROR.search(text) is not None:
        return True
    return _MILD.search(text[:_LEVEL_WITHIN]) is not None or _HARMLESS.search(text) is not None


def _is_raised(text: str) -> bool:
    """Return whether a line is a package's exception, recognized by its name, or by its module and a message."""
    found = _RAISED.match(text)
    if found is None or found["name"].endswith(_NO_FAILURE):
        return False
    if _names_an_error(found["name"]):
        return True
    return found.end() < len(text) and (
        found["name"].endswith(_OTHER_ENDS) or _ERROR_MODULE.search(found["modules"]) is not None
    )


def _names_an_error(name: str) -> bool:
    return name.endswith(_EXCEPTION_ENDS) and not name.endswith(_METRIC_ENDS)


def may_be_last(text: str) -> bool:
    """Return whether a line leaves the run's end open: it is neither progress nor a result."""
    return not (is_progress(text) or says_went_on(text) or _goes_on(text))


def _says(text: str, begin: int) -> bool:
    return not text[begin : begin + 1].isdigit() and len(_WORD.findall(text, begin)) >= _WORDS_MIN


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
        if self._lines_left <= 0 or is_progress(text) or says_went_on(text) or _goes_on(text):
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


def _goes_on(text: str) -> bool:
    return is_ordinary(text) and _GOES_ON.search(text) is not None and _BADLY.search(text) is None


def first_word(words: Sequence[Word]) -> Word | None:
    """Return the most informative line: the first one that does more than report how a process ended."""
    return next((word for word in words if word.kind != "end"), words[0] if words else None)


def finding_of(word: Word, short: str, place: str) -> Finding:
    """Return the finding for a log that ends with this line; ``short`` is the line as shown."""
    text = short if len(short) <= TITLE_CHARS else f"{short[: TITLE_CHARS - 1]}…"
    if word.kind == "end":
        title, cause = f"The log ends with: {text}", "It tells how the process ended, and nothing before it tells why."
        code = _END.search(word.seen.line)
        meaning = exits.meaning_of(int(code["code"])) if code is not None and code["code"] else None
        if meaning is not None and code is not None:
            return Finding(
                id=meaning.id or FINDING_ID,
                severity="error",
                confidence=meaning.confidence,
                title=title,
                evidence=(Fact(short, short, place),),
                cause=f"Exit code {code['code']} stands for {meaning.name}. {meaning.cause}",
                fix=meaning.fix,
                refuted_by=meaning.refuted_by,
            )
    elif word.kind == "trouble":
        title, cause = f"The log ends near: {text}", "Nothing before it tells why; it may be the reason, or say how it ended."
    elif word.kind == "cut":
        title = f"The log ends within a traceback{f' at {word.seen.where}' if word.seen.where else ''}"
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
        fix=f"# read {place} and the lines before it",
        refuted_by="The run ended with exit code 0, or continues: then it survived this line.",
    )


def is_mere_trouble(finding: Finding) -> bool:
    """Return whether a finding only shows trouble near a log's end: whether the run failed is unknown."""
    return finding.id == FINDING_ID and finding.severity == "warning"
