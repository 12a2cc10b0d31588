"""The one list of frameworks: nobody keeps another, and what each side takes from it."""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop import frameworks
from gputop.doctor.facts import ddp
from gputop.frameworks import FRAMEWORKS
from gputop.tracking.auto.losses import user_code
from gputop.tracking.auto.readings import settings

PACKAGE = Path(frameworks.__file__).parent
MODULES = {module for known in FRAMEWORKS.values() for module in known.modules}
OF_SOMETHING_ELSE = {
    *("sources/host/launchers.py", "doctor/findings/fixes.py", "doctor/logs/patterns/usage.py", "adapters/__init__.py"),
    *("doctor/logs/numbers/ranks/waiting_calls.py", "doctor/logs/patterns/hugging_face.py"),
    "tracking/journal/writing/not_kept.py",
}
"""Lists of launchers (accelerate and deepspeed are both), of the modules that a script imports from gputop.adapters, of the
packages that a text of Hugging Face names, and of those that another tracker has integrations for."""


def lists_of_frameworks(source: str) -> Iterator[int]:
    """Yield the lines of tuples, lists, sets, dictionaries and alternatives in patterns that name two or more frameworks."""
    for node in ast.walk(ast.parse(source)):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if "|" in text and len(set(re.split(r"\W+", text)) & (MODULES | set(FRAMEWORKS))) > 1:
            yield node.lineno
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        if len({item.value for item in items if isinstance(item, ast.Constant)} & (MODULES | set(FRAMEWORKS))) > 1:
            yield node.lineno


def test_there_is_one_list() -> None:
    names = MODULES | set(FRAMEWORKS)
    sources = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    candidates = {path: source for path, source in sources.items() if sum(name in source for name in names) > 1}
    found = {path for path, source in candidates.items() if any(lists_of_frameworks(source))}
    assert found - OF_SOMETHING_ELSE == {"frameworks.py"}


@pytest.mark.parametrize(
    "text",
    [
        '("lightning", "torch", "keras")',
        '{"mmengine": 1, "ultralytics": 2}',
        '{"horovod", "megatron"}',
        "'/(torch|horovod|megatron)/'",
    ],
)
def test_another_list_is_found(text: str) -> None:
    assert list(lists_of_frameworks(f"x = {text}"))


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_each_module_reveals_its_framework(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in MODULES:
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert settings.frameworks() == []
    for module in FRAMEWORKS[name].modules:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, types.ModuleType(module))
            assert settings.frameworks() == [name]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_users_line_is_not_looked_for_in_a_framework_that_runs_backward(name: str) -> None:
    known = FRAMEWORKS[name]
    for module in known.modules:
        path = f"/venv/lib/python3/site-packages/{module.replace('.', '/')}/trainer.py"
        assert user_code.UserCode().is_library(path) or not known.runs_backward


def test_who_averages_gradients_by_itself() -> None:
    assert {"deepspeed", "megatron", "horovod"} == ddp._ENGINES
