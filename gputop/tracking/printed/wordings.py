"""Wordings without a colon between a name and its value, and names that only the whole line explains. Pure."""

from __future__ import annotations

import re

from gputop.tracking.printed.names import NUMBER

_FRACTION = r"[-+]?(?:\d{0,12}\.\d{1,20}(?:e[-+]?\d{1,3})?|nan\b|inf(?:inity)?\b)"
"""A number that counts nothing."""
_IS = re.compile(rf"(?<=loss|racy) is (?={_FRACTION}(?:\s{{0,3}}[.,;|)]?\s|[.,;|)]?$))", re.IGNORECASE)
_COUNTED = re.compile(r"(?:epoch|step|iteration|iter)s?[\s:=\[_]{1,4}\d", re.IGNORECASE)
"""Without a count, "Loss is nan, stopping training" is no report."""
_BRACKETED = re.compile(rf"\[(loss)\] {{1,3}}(?={_FRACTION})", re.IGNORECASE)
_BRACKETED_STEP = re.compile(r"\[(?:global )?step\] {1,6}(\d{1,15})(?![\w.])", re.IGNORECASE)
_BOLD = re.compile(r"(?<![\w*])\*\*(?=[A-Za-z])([^*]{1,200}?[\w.%])\*\*(?![\w*])")
_QUOTED = re.compile(rf"(?<=[:=] )['\"]({NUMBER})['\"](?=[,;|\s)]|$)", re.IGNORECASE)
"""A number that was formatted before its dictionary was printed: "'loss': '0.5'"."""
_JOINED = re.compile(rf"(?<!\w)step_(\d{{1,15}}):?(\s{{1,9}})loss_(?={NUMBER}(?![\w.]))", re.IGNORECASE)
"""Both values behind their names and a low line: "step_100: loss_0.5"."""
_ENTROPY = re.compile(r"(?<![A-Za-z])(cross)[ -](entropy)(?= ?[:=] ?[-+\d.n])", re.IGNORECASE)
_OF_BASICSR = re.compile(r"(?<!\w)epoch: {0,6}[\d,]{1,9}, iter: {0,9}[\d,]{1,15}, lr:")
_OF_LOSS = re.compile(r"(?<!\S)l_(?=\w{1,40}: [-+\dn])")
_OF_GAN = re.compile(r"(?<!\w)Err_([GD])(?=: \d)")


def in_pairs(line: str) -> str:
    """Return a line with each value behind its name and a colon, or as it is."""
    if " is " in line and _COUNTED.search(line):
        line = _IS.sub(": ", line)
    if "oss] " in line and (loss := _BRACKETED.search(line)) is not None:
        step = _BRACKETED_STEP.search(line)
        line = f"{line[: loss.start()]}{loss[1]}: {line[loss.end() :]}"
        line = line if step is None else f"step: {step[1]} | {line}"
    if "**" in line:
        line = _BOLD.sub(r"\1", line)
    if ("': '" in line or '": "' in line) and "{" not in line:  # what reads dictionaries knows such numbers
        line = _QUOTED.sub(r"\1", line)
    if "loss_" in line and "step_" in line:
        line = _JOINED.sub(r"step: \1,\2loss: ", line)
    if "ntropy" in line:
        line = _ENTROPY.sub(r"\1_\2", line)
    if " l_" in line and _OF_BASICSR.search(line):
        line = _OF_LOSS.sub("loss_", line)
    if "Err_G: " in line and "Err_D: " in line:
        line = _OF_GAN.sub(r"loss_\1", line)
    return line
