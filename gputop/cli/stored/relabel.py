"""``gputop runs rename`` and ``gputop runs tag``: label a run from outside, even while it trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gputop.cli.stored.shelf import Shelf
from gputop.cli.stored.show import own_tags
from gputop.errors import GputopError, UsageError
from gputop.snapshot import Run
from gputop.terminal_text import printable
from gputop.tracking.reader import labels
from gputop.tracking.reader.labels import Labels
from gputop.tracking.reader.unreadable import labels_sentence


def rename(name: str, new_name: str) -> str:
    """Give a run another name; return the line that says so.

    Raises:
        UsageError: there is no such run, it is not kept on disk, or the name is empty or too long.
        GputopError: the name cannot be written, or the labels that it has cannot be read.
    """
    run, found = _relabel(name, lambda known: labels.renamed(known, new_name))
    return printable(f"{run.run_id}: {found.name}")


def tag(name: str, tags: Sequence[str], *, remove: bool) -> str:
    """Add tags to a run, or remove them; return a line with all its tags.

    Raises:
        UsageError: there is no such run, it is not kept on disk, or a tag is empty or too long, or there are too many.
        GputopError: the tags cannot be written, or those that it has cannot be read.
    """
    run, found = _relabel(name, lambda known: labels.retagged(known, tags, remove=remove))
    return printable(f"{run.run_id}: {', '.join(found.tags(own_tags(run))) or 'no tags'}")


def _relabel(name: str, change: Callable[[Labels], Labels]) -> tuple[Run, Labels]:
    shelf = Shelf(backlog_points=2)
    run = shelf.find(name, shelf.poll().runs, with_labels=False)
    directory: Path | None = shelf.reader.directory(run.run_id)
    if directory is None:
        raise UsageError(
            f"Run {run.run_id} is not kept on disk.",
            "It exists only while its process runs, so it cannot be renamed or tagged.",
        )
    try:
        found = change(labels.read(directory))
    except labels.UnreadableError as error:
        raise GputopError(labels_sentence(run.run_id, str(error)), "Repair that file, or move it away.") from error
    try:
        labels.write(directory, found)
    except OSError as error:
        raise GputopError(
            f"{directory} cannot be written: {error.strerror}.", "Free some space, or check who owns it."
        ) from error
    return run, found
