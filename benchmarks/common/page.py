"""Puts what a benchmark has measured into a page of the manual."""

from __future__ import annotations

from pathlib import Path


def put(page: Path, script: str, text: str) -> None:
    """Replace what a page holds between the marks of a script.

    Raises:
        SystemExit: the page has no such marks.
    """
    begin, end = f"<!-- {script} -->\n", "<!-- end -->\n"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page} has no marks of {script} to put the table between.")
    page.write_text(f"{before}{begin}{text}{end}{after}")
