"""Test processes stay small while they collect: what is large is imported by the tests that need it."""

from __future__ import annotations

import ast

from tests import REPOSITORY

LARGE = {"accelerate", "keras", "lightning", "torch", "transformers"}
SCRIPTS = {"scripts", "framework_scripts"}
"""Folders of programs that tests start."""


def imported_at_the_top(tree: ast.Module) -> set[str]:
    """Return the packages that importing this module imports, but for those under a condition."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        for call in ast.walk(node) if isinstance(node, ast.Assign | ast.Expr) else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.importorskip":
                found.add(ast.literal_eval(call.args[0]).partition(".")[0])
    return found


def test_no_test_module_imports_a_large_package_while_it_is_collected() -> None:
    modules = [path for path in (REPOSITORY / "tests").rglob("test_*.py") if not SCRIPTS & set(path.parts)]
    assert len(modules) > 300
    found = {str(path): imported_at_the_top(ast.parse(path.read_text())) & LARGE for path in modules}
    wrong = {path: names for path, names in found.items() if names}
    assert not wrong, f"let tests.packages.needs or imports do that: {wrong}"


def test_what_a_module_imports_is_seen() -> None:
    source = (
        'import torch.nn as nn\nfrom keras import ops\nx = pytest.importorskip("lightning")\ndef f():\n    import accelerate'
    )
    assert imported_at_the_top(ast.parse(source)) == {"torch", "keras", "lightning"}
