"""docs/curves.md names the files that are read, as the table of kinds does."""

from __future__ import annotations

from gputop.untracked import search, walk
from gputop.untracked.kinds import KINDS, ORDER, kind_of
from tests import REPOSITORY

PAGE = (REPOSITORY / "docs" / "curves.md").read_text()


def test_the_page_lists_every_kind_of_file() -> None:
    _, start, rest = PAGE.partition("<!-- kinds -->\n")
    rows, end, _ = rest.partition("<!-- /kinds -->")
    assert start
    assert end
    assert rows == "".join(f"| {kind.label} | {kind.names} | {kind.written_by} |\n" for kind in KINDS)
    assert {kind.label for kind in KINDS} < set(ORDER)
    for name in search._ENVIRONMENT:
        assert f"`{name}`" in PAGE
    assert f"{walk.LIVE.entries:,} entries or {walk.LIVE.seconds:g} seconds" in PAGE
    assert f"more than {walk.LIVE.entries_of_a_folder:,} entries" in PAGE


def test_each_kind_is_recognized_by_the_names_that_the_page_gives() -> None:
    for kind in KINDS:
        for name in kind.names.split(" with ")[0].split(", "):
            file = name.rpartition("/")[2].replace("*", "x1")
            assert kind_of(file) is kind or kind.label == "MLflow", name
    for other in ("events.out", "model.pt", "run-1.json", "metrics.txt", "state.json", "log.text"):
        assert kind_of(other) is None
