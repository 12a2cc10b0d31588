"""What torch's allocator held when memory ran out: snapshots in torch's documented form, and the report."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.cli.stored.show import show_lines
from gputop.facts.memory_text import UNKNOWN_LINES, memory_lines
from gputop.snapshot import Rank, Run
from gputop.tracking import out_of_memory
from gputop.tui.drawing.runs.differences import config_lines
from tests.facts.checks import assert_facts

GIB = 1 << 30


def block(size: int, *frames: tuple[str, int, str], state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    named = [{"filename": path, "line": line, "name": name} for path, line, name in frames]
    return {"size": size, "requested_size": size - 8, "address": 1, "state": state, "frames": named, **more}


def segment(*blocks: dict[str, Any], device: int = 0) -> dict[str, Any]:
    total = sum(item["size"] for item in blocks)
    return {"device": device, "address": 1, "total_size": total, "stream": 0, "segment_type": "large", "blocks": list(blocks)}


LIBRARY = ("/x/site-packages/torch/nn/functional.py", 5, "linear")
CPP = ("??", 0, "at::empty")
FORWARD = ("/home/me/train.py", 88, "forward")
SEGMENTS = [
    segment(block(3 * GIB, CPP, LIBRARY, FORWARD), block(GIB, state="inactive")),
    segment(block(2 * GIB, LIBRARY, FORWARD), block(GIB, ("/home/me/data.py", 7, "load"), state="active_awaiting_free")),
    segment(block(GIB // 2, LIBRARY)),
    segment(block(9 * GIB, ("/home/me/other.py", 1, "f")), device=1),
]


def is_library(path: str) -> bool:
    return "site-packages" in path


class OutOfMemoryError(RuntimeError):
    """torch's, by its name."""


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """torch.cuda with the segments of two devices."""
    found = SimpleNamespace(
        is_initialized=lambda: True,
        current_device=lambda: 0,
        memory=SimpleNamespace(memory_snapshot=lambda include_traces: SEGMENTS),
        memory_allocated=lambda: 5 * GIB,
        memory_reserved=lambda: 7 * GIB,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=found))
    return found


def test_the_lines_that_hold_most_come_first(cuda: SimpleNamespace) -> None:
    found = out_of_memory.fact(OutOfMemoryError("full"), is_library)
    assert_facts({"out_of_memory": found})
    assert found == {
        "allocated_bytes": 6 * GIB + GIB // 2,
        "cached_bytes": GIB,
        "largest_free_bytes": GIB,
        "lines": [
            {"line": "train.py:88 forward", "bytes": 5 * GIB, "blocks": 2},
            {"line": "data.py:7 load", "bytes": GIB, "blocks": 1},
        ],
    }
    told = memory_lines({"out_of_memory": found}, 1)
    assert told == [
        "torch held 6.5 GiB, and 1.0 GiB cached but free, 1.0 GiB of it in one piece",
        "5.0 GiB in 2 blocks from train.py:88 forward",
    ]
    rank = Rank(0, pid=1, state="failed", facts={"out_of_memory": found})
    run = Run("r", "r", state="failed", ranks=(rank,))
    assert f"  {told[1]}" in show_lines(run, {})
    screen = " ".join("".join(span.text for span in line).strip() for line in config_lines([(run, "")], 60))
    assert "5.0 GiB in 2 blocks from train.py:88 forward" in " ".join(screen.split())


def test_without_a_snapshot_only_the_totals_are_shown(cuda: SimpleNamespace) -> None:
    cuda.memory.memory_snapshot = lambda include_traces: [][3]
    found = out_of_memory.fact(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), is_library)
    assert found == {"allocated_bytes": 5 * GIB, "cached_bytes": 2 * GIB, "largest_free_bytes": None, "lines": []}
    assert memory_lines({"out_of_memory": found}) == ["torch held 5.0 GiB, and 2.0 GiB cached but free", UNKNOWN_LINES]


def test_a_torch_that_can_only_take_the_whole_history_is_asked_for_sums(cuda: SimpleNamespace) -> None:
    taken = []
    cuda.memory.memory_snapshot = lambda: taken.append("the history") or SEGMENTS
    found = out_of_memory.fact(OutOfMemoryError("full"), is_library)
    assert found == {"allocated_bytes": 5 * GIB, "cached_bytes": 2 * GIB, "largest_free_bytes": None, "lines": []}
    assert not taken


def test_other_errors_and_other_versions_of_torch_add_nothing(cuda: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert out_of_memory.fact(ValueError("no"), is_library) is None
    cuda.is_initialized = lambda: False
    assert out_of_memory.fact(OutOfMemoryError("full"), is_library) is None
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert out_of_memory.fact(OutOfMemoryError("full"), is_library) is None
    assert memory_lines({}) == []
    assert memory_lines({"out_of_memory": {"lines": "x"}}) == [
        "torch held N/A, and N/A cached but free",
        UNKNOWN_LINES,
    ]


def test_a_history_of_an_older_torch_and_damage() -> None:
    older = block(
        GIB, state="active_allocated", history=[{"addr": 1, "frames": [{"filename": "/a.py", "line": 3, "name": "f"}]}]
    )
    broken = {"size": "x", "state": None, "frames": [None, {"filename": 3}]}
    found = out_of_memory.of_segments([segment(older), {"blocks": [broken]}, {}], lambda path: False)
    assert found["lines"] == [{"line": "a.py:3 f", "bytes": GIB, "blocks": 1}]
