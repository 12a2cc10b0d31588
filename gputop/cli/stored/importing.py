"""``gputop runs import``: turns files of ended trainings into runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gputop.terminal_text import printable, table
from gputop.untracked.stored import store


def import_runs(paths: Sequence[str]) -> None:
    """Import the files at the paths, and print each run once it is imported.

    Raises:
        UsageError: a path does not exist or contains no curve.
        GputopError: a run cannot be written.
    """
    for path in paths:
        rows = [(item.run_id, item.outcome, item.source, item.name) for item in store(Path(path)) if item.outcome != "empty"]
        for row in table(("RUN", "OUTCOME", "FROM", "NAME"), rows) if rows else [f"{path}: no values yet."]:
            print(printable(row))
