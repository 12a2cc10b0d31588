"""Each reading of a GPU that the driver is asked for is shown, judged, or waits for the screen that will show it."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

from gputop.snapshot import WAITING_FOR_GPU_SCREEN, Device
from tests import REPOSITORY
from tests.house.how_to import step

PACKAGE = REPOSITORY / "gputop"
USERS = ("cli", "doctor", "tui")
"""The packages that show readings to people or judge them. What only stores or passes on a reading is no use of it."""


def names_in(path: Path) -> set[str]:
    """Attributes and whole strings of a module: a field is read as ``device.power_w`` or named as ``"power_w"``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_every_device_field_is_used_or_waits_for_the_gpu_screen() -> None:
    known = {field.name for field in fields(Device)}
    used = set().union(*(names_in(path) for package in USERS for path in (PACKAGE / package).rglob("*.py")))
    idle = known - used - WAITING_FOR_GPU_SCREEN
    assert not idle, f"{', '.join(sorted(idle))}: shown nowhere; {step('A driver reading', 'Use')}"
    assert used & WAITING_FOR_GPU_SCREEN == set(), "in use now: take them out of WAITING_FOR_GPU_SCREEN"
    assert WAITING_FOR_GPU_SCREEN - known == set(), "no fields of Device"
