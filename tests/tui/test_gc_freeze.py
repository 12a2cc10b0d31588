from __future__ import annotations

import gc

import pytest

from gputop.tui.gc_freeze import long_lived


def test_the_collector_goes_on_after_an_import_that_failed() -> None:
    with pytest.raises(ModuleNotFoundError), long_lived():
        raise ModuleNotFoundError("no such module")
    assert gc.isenabled()


def test_what_is_imported_for_good_is_left_alone_by_the_collector() -> None:
    before = gc.get_freeze_count()
    with long_lived():
        assert not gc.isenabled()
        kept = [[number] for number in range(100)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(kept)
    gc.unfreeze()
