"""Answers a screen's questions about one process. A read of /proc can hang with the process.

Imports psutil only for the first question about details.
"""

from __future__ import annotations

from collections.abc import Mapping

from gputop.errors import describe_unexpected
from gputop.process import ProcessAnswer, ProcessQuestion
from gputop.sources.host.details import details_of
from gputop.sources.host.environ import environment_of

READERS_MAX = 4
"""Number of concurrent reader threads. More than one is needed only if reads hang."""
VALUE_MAX_CHARACTERS = 4096
"""Longer values are truncated and end in "…"."""
ENVIRONMENT_MAX_CHARACTERS = 256 * 1024
"""Size of the names and values in one answer. The kernel allows an environment of several MiB, too much for one line."""


def answer_to(question: ProcessQuestion) -> ProcessAnswer:
    """Read the answer; blocks for as long as /proc does."""
    try:
        if not question.environment:
            return ProcessAnswer(question, details_of(question.pid))
        found = environment_of(question.pid)
    except Exception as error:  # noqa: BLE001 - the screen shows the error, and the next question is still answered
        return ProcessAnswer(question, problem=f"gputop could not read it: {describe_unexpected(error)}.")
    if found is None:
        return ProcessAnswer(question)
    kept = _bound(found)
    return ProcessAnswer(question, environment=kept, omitted=len(found) - len(kept))


def _bound(environment: Mapping[str, str]) -> dict[str, str]:
    """Truncate long values, and keep as many variables as fit: the shortest first, so that no long one displaces many."""
    cut = {
        name: value if len(value) <= VALUE_MAX_CHARACTERS else f"{value[:VALUE_MAX_CHARACTERS]}…"
        for name, value in environment.items()
    }
    kept: dict[str, str] = {}
    left = ENVIRONMENT_MAX_CHARACTERS
    for name in sorted(cut, key=lambda name: len(name) + len(cut[name])):
        left -= len(name) + len(cut[name])
        if left < 0:
            break
        kept[name] = cut[name]
    return {name: kept[name] for name in sorted(kept)}
