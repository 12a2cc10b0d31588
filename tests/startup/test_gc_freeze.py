from __future__ import annotations

import gc
import weakref

import pytest

from gputop.startup.gc_freeze import NEW_OBJECTS, collect_rarely, long_lived


def test_the_collector_continues_after_a_failed_import() -> None:
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


@pytest.mark.parametrize("many", [False, True])
def test_what_many_imports_replaced_is_not_kept_for_good(many: bool) -> None:
    class Node:
        pass

    with long_lived(many=many):
        node = Node()
        node.itself = node  # type: ignore[attr-defined]
        seen = weakref.ref(node)
        del node
    gc.collect()
    assert (seen() is None) is many


def test_the_collector_looks_for_cycles_rarely() -> None:
    before = gc.get_threshold()
    looks: list[int] = []

    def looked(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looks.append(info["generation"])

    gc.collect()
    try:
        collect_rarely()
        gc.callbacks.append(looked)
        kept = [[number] for number in range(NEW_OBJECTS // 2)]
        few = len(looks)
        kept += [[number] for number in range(NEW_OBJECTS)]
        many = len(looks)
    finally:
        gc.callbacks.remove(looked)
        gc.set_threshold(*before)
    assert (few, many) == (0, 1)
    assert kept
