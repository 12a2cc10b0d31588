"""The uses of a device by its processes, between two readings of its lists."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gputop.process import DeviceUse
from gputop.sources.nvml.processes import ProcessReader


def test_uses_are_merged_once_for_each_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    asker: Any = SimpleNamespace(calls=SimpleNamespace(has=lambda function: True))
    reader = ProcessReader(asker)
    lists: dict[str, dict[int, int | None]] = {"C": {7: 100, 8: None}, "G": {7: 300}, "M": {}}
    monkeypatch.setattr(reader, "_read_list", lambda kind, total: dict(lists[kind]))
    monkeypatch.setattr(reader, "_read_samples", lambda: {7: 50.0})
    reader.read(None, everything=True)
    first = reader.uses("GPU-1")
    assert first == {7: DeviceUse("GPU-1", 300, 50.0, "CG"), 8: DeviceUse("GPU-1", None, 0.0, "C")}
    assert reader.uses("GPU-1") is first
    del lists["C"][8]
    reader.read(None, everything=False)
    assert reader.uses("GPU-1") == {7: first[7]}
