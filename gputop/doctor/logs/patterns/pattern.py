"""The definition of a known error text: a row of the tables in this package. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Confidence, Severity

FAILURE = "failure"
HINT = "hint"
"""A line worth knowing that ends no run."""
REASON = "reason"
"""A line that ends no run by itself, but says why the command failed that an exception after it reports."""


class _Filled(dict[str, str]):
    """Values of a match; a value that the text does not contain is "N/A"."""

    def __missing__(self, name: str) -> str:
        return "N/A"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text that torch, NCCL, a launcher or a framework prints, what it means, and the fix.

    ``key`` is a literal in every matching line, searched for before ``expression``. ``title``, ``means``, ``fix`` and
    ``refuted_by`` may refer to groups of the expression in braces. ``cause`` is a rule's id; None if no rule has it.
    ``confidence`` is that of the cause; the text itself is there to be read.
    """

    id: str
    cause: str | None
    key: str
    expression: str
    title: str
    means: str
    fix: str
    kind: str = FAILURE
    severity: Severity = "error"
    confidence: Confidence = "certain"
    cascade: bool = False
    """Such a text follows from a failure elsewhere and is never the root."""
    vague: bool = False
    """It says less than any other text of the same exception."""
    refuted_by: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Values of groups that some forms of the text leave out."""
    holds: Callable[[Mapping[str, str]], bool] | None = None
    """Whether the values of a match bear out what the title says; None: they need not be checked."""
    raised: bool = True
    """Whether an exception may say it; if not, the same words in a traceback mean something else."""
    lasting: bool = False
    """Whether it stays true while the run continues, as a full disk does: the next write fails too."""

    def match(self, line: str) -> Mapping[str, str] | None:
        """Return the named groups if the line contains this text, else None."""
        if self.key not in line:
            return None
        # Compiled on first use and cached by re: the sampler imports this table while a screen waits for its first frame.
        found = re.search(self.expression, line)
        if found is None:
            return None
        groups = _Filled({**self.groups, **{name: value for name, value in found.groupdict().items() if value is not None}})
        return groups if self.holds is None or self.holds(groups) else None

    def said(self, template: str, groups: Mapping[str, str]) -> str:
        """Return ``title``, ``means`` or ``refuted_by`` with the match's values filled in."""
        return template.format_map(_Filled(groups))

    def command(self, groups: Mapping[str, str]) -> str:
        """Return ``fix`` with the match's values filled in, so that no text of a log is run by a shell."""
        return filled(self.fix, groups)


def failure(
    name: str,
    cause: str | None,
    key: str,
    expression: str,
    title: str,
    means: str,
    fix: str,
    *,
    confidence: Confidence = "certain",
    refuted_by: str = "",
    groups: Mapping[str, str] | None = None,
    vague: bool = False,
    holds: Callable[[Mapping[str, str]], bool] | None = None,
    raised: bool = True,
    lasting: bool = False,
) -> Pattern:
    """Return the row of a text that a run fails with."""
    return Pattern(
        name,
        cause,
        key,
        expression,
        title,
        means,
        fix,
        confidence=confidence,
        refuted_by=refuted_by,
        groups=groups or {},
        vague=vague,
        holds=holds,
        raised=raised,
        lasting=lasting,
    )


def reason(name: str, key: str, expression: str, title: str, means: str, fix: str, refuted_by: str) -> Pattern:
    """Return the row of a line that says why a command failed which an exception after it reports."""
    return Pattern(name, None, key, expression, title, means, fix, REASON, confidence="likely", refuted_by=refuted_by)


def cascade(name: str, cause: str | None, key: str, expression: str, title: str, means: str, fix: str) -> Pattern:
    """Return the row of a text that follows from a failure elsewhere."""
    return Pattern(name, cause, key, expression, title, means, fix, confidence="possible", cascade=True)


def hint(
    name: str,
    cause: str | None,
    key: str,
    expression: str,
    title: str,
    means: str,
    fix: str,
    *,
    severity: Severity = "warning",
    confidence: Confidence = "certain",
    groups: Mapping[str, str] | None = None,
    holds: Callable[[Mapping[str, str]], bool] | None = None,
    lasting: bool = False,
) -> Pattern:
    """Return the row of a warning or remark."""
    return Pattern(
        name,
        cause,
        key,
        expression,
        title,
        means,
        fix,
        HINT,
        severity,
        confidence,
        groups=groups or {},
        holds=holds,
        lasting=lasting,
    )
