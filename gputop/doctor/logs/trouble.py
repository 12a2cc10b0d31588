"""Signs of trouble at the end of a log without any error line: a refused call, or a report that something failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.doctor.logs.after import is_ordinary, may_be_last
from gputop.doctor.logs.error_lines import LEVEL_WITHIN, has_words, names_an_error, says_no_error
from gputop.doctor.logs.lines import is_warning

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
REFUSED_FOLLOWING, TROUBLE_FOLLOWING = 3, 1
"""How many of the script's own lines may follow trouble at the end of a log."""


def trouble_in(texts: Sequence[str]) -> int | None:
    """Return which of a log's last lines is the first sign of trouble after its last progress; None if there is none."""
    boxed = _box_at_end(texts)
    if boxed is not None:
        return boxed
    following, trouble, refused = 0, None, None
    for at in range(len(texts) - 1, -1, -1):
        text = texts[at]
        if following > REFUSED_FOLLOWING:
            break
        if not may_be_last(text):
            return refused if _DONE.search(text) is not None else trouble
        if _is_harmless(text):
            pass
        elif _is_refusal(text):
            trouble = refused = at
        elif following <= TROUBLE_FOLLOWING and _is_trouble(text):
            trouble = at
        following += is_ordinary(text)
    return trouble


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
    return _TROUBLE.search(text) is not None and has_words(text)


def _is_harmless(text: str) -> bool:
    if is_warning(text) or says_no_error(text):
        return True
    return _MILD.search(text[:LEVEL_WITHIN]) is not None or _HARMLESS.search(text) is not None


def _is_raised(text: str) -> bool:
    """Return whether a line is a package's exception, recognized by its name, or by its module and a message."""
    found = _RAISED.match(text)
    if found is None or found["name"].endswith(_NO_FAILURE):
        return False
    if names_an_error(found["name"]):
        return True
    return found.end() < len(text) and (
        found["name"].endswith(_OTHER_ENDS) or _ERROR_MODULE.search(found["modules"]) is not None
    )
