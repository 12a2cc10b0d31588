"""Some scripts of the bench, those that differ most; ``make conformance`` runs all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import REPOSITORY
from tests.packages import needs
from tests.tracking.conformance.bench import COLUMNS, NONE, NOT_RECORDED, REMARKS, RIGHT, SCRIPTS, check, names

QUICK = ("epochs_and_validation", "autocast_and_scaler", "accumulation_by_tokens", "critic_more_often", "pkg.train")
"""The last one, a module, is started; the others are forks (``tests/nursery``)."""


@needs("torch")
@pytest.mark.parametrize("name", QUICK)
def test_a_script_is_the_same_to_itself_and_rightly_tracked(name: str, tmp_path: Path) -> None:
    result = check(name, tmp_path, together=True, warm=True)
    wrong = {column: verdict for column, verdict in result.verdicts.items() if verdict not in (RIGHT, NONE)}
    assert not result.cannot_run
    assert not wrong, "\n".join(result.why)
    assert set(result.verdicts) == set(COLUMNS)


def test_the_page_lists_the_scripts_that_there_are() -> None:
    page = (REPOSITORY / "docs" / "tracking.md").read_text()
    assert re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE) == names(), "run make conformance"
    missing = [row.split("`")[1] for row in page.splitlines() if row.startswith("| `") and f"**{NOT_RECORDED}**" in row]
    assert missing == [name for name in names() if name in REMARKS], "each has its reason in REMARKS"
    assert "**wrong**" not in page


def test_a_script_knows_nothing_of_gputop() -> None:
    for path in SCRIPTS.rglob("*.py"):
        assert "gputop" not in path.read_text() or path.stem in ("own_logging", "wandb_shim", "record"), path.name
