"""The notes in a snapshot on runs whose journals or labels cannot be read: damaged, another user's, or of a newer gputop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gputop.snapshot import Problem

CODE = "unreadable_runs"
SILENCE = "Move that file away to silence this message."


def sentence(run_id: str, why: str) -> str:
    """Say that a run, or one of its ranks, cannot be read. ``why``: the file and the reason; for an empty id, no run can."""
    if not run_id:
        return f"The runs cannot be read: {why}."
    return f"Run {run_id} cannot be read: {why}."


def labels_sentence(run_id: str, why: str) -> str:
    """Say that the labels that the user gave a run cannot be read. ``why``: the file and the reason."""
    return f"The name and tags given to run {run_id} cannot be read: {why}."


def notes_of(runs: Mapping[str, str], labels: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return a note on each of the two that holds any: it names the first run, and how many more there are.

    ``runs`` and ``labels``: run id -> the file and the reason. An empty id stands for the directory of all runs.
    """
    return (*_note(runs, sentence), *_note(labels, labels_sentence))


def _note(found: Mapping[str, str], say: Callable[[str, str], str]) -> tuple[Problem, ...]:
    if not found:
        return ()
    first, others = min(found), len(found) - 1
    more = f"Nor can {others} other{'s' if others > 1 else ''}. gputop runs names them all."
    return (Problem(CODE, say(first, found[first]), more if others else SILENCE),)
