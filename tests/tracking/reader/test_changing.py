"""Files of a run that change under their reader: truncated, replaced, removed. What can be read is shown."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gputop.tracking.journal.read import JournalReader, salvage
from tests.tracking.kit import Home, home
from tests.tracking.reader.test_runs import open_rank

assert home


@pytest.mark.timeout(60)
@pytest.mark.parametrize("change", ["pipe", "other journal", "gone"])
def test_what_a_dead_process_left_is_copied_only_into_its_own_journal(home: Home, change: str) -> None:
    opened = open_rank(home, "x")
    opened.journal.log(loss=1.0)
    archive = home.runs / "x" / "rank-00000.gpr"
    (ring,) = home.rings()
    reader = JournalReader(archive)
    assert reader.has_ring
    archive.rename(archive.with_suffix(".old"))
    if change == "pipe":
        os.mkfifo(archive)
    elif change == "other journal":
        shutil.copy(archive.with_suffix(".old"), archive)
    before = Path(archive).read_bytes() if change == "other journal" else b""
    descriptors = os.listdir("/proc/self/fd")
    assert not salvage(reader, archive, ring)
    assert os.listdir("/proc/self/fd") == descriptors
    assert ring.exists(), "it is the only copy"
    assert change != "other journal" or archive.read_bytes() == before
    reader.close()
