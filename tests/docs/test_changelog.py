"""CHANGELOG.md says each thing once: a merge of two branches that reword one entry keeps both."""

from __future__ import annotations

import re

from tests import REPOSITORY

GROUPS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Performance"]
"""The groups of Keep a Changelog in its order, and ours."""
SAME_BEGINNING = 60
"""Two entries whose first characters, this many, are equal are one entry in two versions."""


def versions() -> dict[str, str]:
    """Return what stands below each version's heading."""
    page = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
    parts = re.split(r"^## \[([^\]]+)\].*$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def entries(section: str) -> list[str]:
    """Return the entries of a version, each as one line."""
    return [" ".join(entry.split()) for entry in re.split(r"^- |^### .*$", section, flags=re.MULTILINE)[1:] if entry.strip()]


def test_each_group_appears_once_and_in_order() -> None:
    for version, section in versions().items():
        groups = re.findall(r"^### (.*)$", section, flags=re.MULTILINE)
        assert groups == [group for group in GROUPS if group in groups], version


def test_no_entry_appears_twice() -> None:
    for version, section in versions().items():
        seen: dict[str, str] = {}
        for entry in entries(section):
            first = seen.setdefault(entry[:SAME_BEGINNING], entry)
            assert first is entry, f"two versions of one entry of {version}:\n{first}\n{entry}"


def test_no_entry_is_cut_off() -> None:
    cut_off = [entry for section in versions().values() for entry in entries(section) if not entry.endswith((".", ".)"))]
    assert cut_off == []
