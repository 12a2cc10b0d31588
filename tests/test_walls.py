"""The walls between the rooms (DESIGN section 2), by walking the imports and by asking a fresh interpreter."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "gputop"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_demos" not in path.parts)

WALLS = {
    "pynvml": lambda name: name.startswith("sources/nvml"),
    "psutil": lambda name: name.startswith("sources/host"),
    "textual": lambda name: name.startswith("tui/"),
    "rich": lambda name: name.startswith("tui/"),
    "plotext": lambda name: name.startswith("tui/"),
    "transformers": lambda name: name == "adapters/huggingface.py",
    "lightning": lambda name: False,
    "pytorch_lightning": lambda name: False,
    "accelerate": lambda name: name == "adapters/accelerate.py",
    "keras": lambda name: name == "adapters/keras.py",
    "wandb": lambda name: False,
    "torch": lambda name: False,
    "numpy": lambda name: False,
}
TRACKING_MAY_IMPORT = (
    "gputop.tracking",
    "gputop.snapshot",
    "gputop.wire",
    "gputop.places",
    "gputop.errors",
    "gputop.terminal_text",
    "gputop.units",
)
PURE_ROOMS = {
    "adapters": ("gputop.adapters", "gputop.tracking"),
    "doctor": ("gputop.doctor", "gputop.snapshot", "gputop.terminal_text", "gputop.units", "gputop.errors"),
    "tui/drawing": (
        "gputop.tui.drawing",
        "gputop.tui.state.view",
        "gputop.snapshot",
        "gputop.units",
        "gputop.history.series",
        "gputop.doctor",
    ),
}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "gputop":
            yield from (f"gputop.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def inside_functions(path: Path) -> set[str]:
    """Modules that are imported only when a function runs."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {
        name
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_stays_within_its_walls(path: Path) -> None:
    name = str(path.relative_to(PACKAGE))
    lazy = inside_functions(path)
    for imported in imports(path):
        top = imported.partition(".")[0]
        if top in WALLS and not (name.startswith("tracking/") and imported in lazy):
            assert WALLS[top](name), f"{name} imports {imported}"
        if name.startswith("tracking/"):
            assert top in sys.stdlib_module_names or imported.startswith(TRACKING_MAY_IMPORT) or imported in lazy, imported
        for room, allowed in PURE_ROOMS.items():
            if name.startswith(f"{room}/") and top == "gputop":
                assert imported.startswith(allowed), f"{name} imports {imported}"


def test_modules_are_found() -> None:
    assert len(MODULES) > 30


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("name", ["textual", "torch", "numpy", "psutil", "pynvml", "plotext", "rich", "asyncio"])
def test_import_gputop_is_light(name: str) -> None:
    assert name not in loaded_by("import gputop")


@pytest.mark.parametrize("name", ["textual", "torch", "numpy", "plotext", "rich", "psutil"])
def test_the_sampler_loads_no_screen(name: str) -> None:
    assert name not in loaded_by("import gputop.agent.sampler, gputop.cli.parser, gputop.cli.once")
