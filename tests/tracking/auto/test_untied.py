"""The state of a training is written by its own module; the others ask it to change."""

from __future__ import annotations

import ast
from pathlib import Path

from tests import REPOSITORY

AUTO = REPOSITORY / "gputop" / "tracking" / "auto"
STATE = "training/state.py"
NAMES = ("steps", "self.steps", "self._steps", "training", "self.training", "self._training", "steps.training")
"""What the other modules call the state."""


def written(path: Path) -> list[str]:
    """Return the assignments to an attribute of the state in a module."""
    return [
        f"{path.relative_to(AUTO)}:{node.lineno} writes {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and ast.unparse(node.value) in NAMES
    ]


def test_no_other_module_writes_the_state_of_a_training() -> None:
    modules = [path for path in sorted(AUTO.rglob("*.py")) if str(path.relative_to(AUTO)) != STATE]
    assert len(modules) > 20
    assert [line for path in modules for line in written(path)] == []


def test_a_write_is_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(f"{__name__}.AUTO", tmp_path)
    (tmp_path / "hooks.py").write_text("def f(steps):\n    steps.blind = True\n    return steps.blind\n")
    assert written(tmp_path / "hooks.py") == ["hooks.py:2 writes steps.blind"]
