"""Shares of a step that a run prints as percentages: "data loading (%)=69.2", "wait for data 61.0%". Pure."""

from __future__ import annotations

import itertools
import re
import statistics

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.parts import LINES_MIN, PartKind
from gputop.doctor.logs.numbers.step_parts import KEPT, SHARES, takes_much

_OF_DATA = (
    r"(?:data|input|batch)[-_ ]?(?:load(?:ing|er)?|wait(?:ing)?|fetch(?:ing)?|stall(?:ed)?|time|starv\w{0,7})"
    r"|(?:wait(?:ing)?|stalled|blocked)[-_ ](?:for|on)[-_ ](?:the[-_ ])?(?:data|input|batch|load)\w{0,10}"
    r"|dataload(?:er|ing)?(?:[-_ ](?:wait|time|stall))?"
)
_OF_EXCHANGE = (
    r"(?:exposed[-_ ])?comm(?:unication)?(?:[-_ ](?:time|wait))?|all[-_]?reduce(?:[-_ ](?:time|wait))?|nccl[-_ ](?:time|wait)"
)
_SHARE = re.compile(
    rf"(?i)(?<![a-z])(?:(?P<data>{_OF_DATA})|(?P<communication>{_OF_EXCHANGE}))"
    r"(?:[-_ ](?:share|frac(?:tion)?|ratio|pct|percent))?(?: ?\(%\)[\"']?\s?[=:]\s?|[\s=:(]{1,4})"
    r"(?P<value>\d{1,3}(?:\.\d{1,4})?) ?(?P<percent>%?)(?!\||\d|/| ?m?s\b)"
)
_KINDS: tuple[PartKind, ...] = ("data", "communication")
_CERTAINLY_PERCENT = re.compile(r"\(%\)|pct|percent")


FEW_MIN = 3
"""This many shares are enough for "possible" if each of them is large (our choice)."""


class SaidShares:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first share."""
        self._shares: dict[PartKind, list[float]] = {kind: [] for kind in _KINDS}

    def read(self, line: Line) -> None:
        """Take the next line."""
        if ("%" not in line.text and "pct" not in line.lower and "percent" not in line.lower) or line.is_of_evaluation:
            return
        for match in _SHARE.finditer(line.text):
            if not match["percent"] and _CERTAINLY_PERCENT.search(match[0].lower()) is None:
                continue
            kind = next(kind for kind in _KINDS if match[kind] is not None)
            if len(self._shares[kind]) < KEPT:
                self._shares[kind].append(float(match["value"]) / 100)

    def findings(self) -> tuple[Finding, ...]:
        """Return what takes much of the steps, by the middle of its shares after the first."""
        for kind, shares in self._shares.items():
            usual = statistics.median(shares[1:]) if len(shares) > LINES_MIN else 0.0
            possible, likely = SHARES[kind]
            if FEW_MIN <= len(shares) <= LINES_MIN and possible <= min(shares) <= max(shares) <= 1 and not _is_progress(shares):
                return (takes_much(kind, statistics.median(shares), "possible", len(shares)),)
            if possible <= usual <= 1 and not _is_progress(shares):
                return (takes_much(kind, usual, "likely" if usual >= likely else "possible", len(shares)),)
        return ()


def _is_progress(shares: list[float]) -> bool:
    """Return whether the shares only rise, to the whole: of data that is loaded once."""
    return shares[-1] > 0.95 and all(before <= after for before, after in itertools.pairwise(shares))
