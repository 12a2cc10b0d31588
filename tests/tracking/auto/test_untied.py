"""The state of a training, its lines and its journal are written by their own modules; the others ask them to change."""

from __future__ import annotations

import ast
from pathlib import Path

from tests import REPOSITORY

AUTO = REPOSITORY / "gputop" / "tracking" / "auto"
NAMES = {
    **dict.fromkeys(("steps", "self.steps", "self._steps", "training", "self.training", "self._training"), "training/state.py"),
    "steps.training": "training/state.py",
    **dict.fromkeys(("site", "first", "found[0]", "other"), "losses/site.py"),
    **dict.fromkeys(("journal", "self.journal", "self._journal"), "../journal/writing/writer.py"),
}
"""What the modules call these objects, and the only module that may write each of them."""


def written(path: Path) -> list[str]:
    """Return the assignments in a module to an attribute of an object that belongs to another one."""
    own = str(path.relative_to(AUTO))
    return [
        f"{path.relative_to(AUTO)}:{node.lineno} writes {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and not isinstance(node.ctx, ast.Load)
        and NAMES.get(ast.unparse(node.value), own) != own
    ]


def test_no_module_writes_what_belongs_to_another_one() -> None:
    modules = sorted(AUTO.rglob("*.py"))
    assert len(modules) > 20
    assert [line for path in modules for line in written(path)] == []


def test_a_write_is_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(f"{__name__}.AUTO", tmp_path)
    (tmp_path / "hooks.py").write_text("def f(steps):\n    steps.blind = True\n    return steps.blind\n")
    assert written(tmp_path / "hooks.py") == ["hooks.py:2 writes steps.blind"]
