"""The user's line is found by walking up to the user's file, however many calls of libraries are in between."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gputop.tracking.auto.losses.user_code import UserCode
from tests import REPOSITORY

NN = os.path.join(os.sep, "lib", "site-packages", "torch", "nn")
MODULES = os.path.join(NN, "modules", "module.py")
DISTRIBUTED = os.path.join(NN, "parallel", "distributed.py")
SCRIPT = os.path.join(os.sep, "home", "me", "train.py")
PARALLEL = os.path.join("torch", "nn", "parallel") + os.sep


def of_file(path: str) -> Callable[..., Any]:
    """Return a function of a file that calls its first argument with the others."""
    names: dict[str, Callable[..., Any]] = {}
    exec(compile("def onward(first, *others):\n    return first(*others)", path, "exec"), names)
    return names["onward"]


@pytest.mark.parametrize("calls", [0, 1, 20])
def test_a_wrapper_is_seen_above_any_number_of_calls_of_libraries(calls: int) -> None:
    through = partial(UserCode().called_through, PARALLEL)
    assert of_file(SCRIPT)(of_file(DISTRIBUTED), *[of_file(MODULES)] * calls, through)


@pytest.mark.parametrize("calls", [0, 1, 20])
def test_a_wrapper_above_the_users_line_does_not_count(calls: int) -> None:
    through = partial(UserCode().called_through, PARALLEL)
    assert not of_file(DISTRIBUTED)(of_file(SCRIPT), *[of_file(MODULES)] * calls, through)


OF_ONE_CALL = "sys._getframe()", "sys._getframe(1)"


def test_no_frame_is_found_by_a_fixed_number_of_calls() -> None:
    """Another call in between would silently name another line. A function may ask for its own frame, or who called it."""
    fixed = [
        f"{path.relative_to(REPOSITORY)}:{call.lineno}"
        for path in sorted((REPOSITORY / "gputop").rglob("*.py"))
        if "_getframe(" in (text := path.read_text(encoding="utf-8"))
        for call in ast.walk(ast.parse(text))
        if ast.unparse(call).startswith("sys._getframe(1).f_back")
        or (
            isinstance(call, ast.Call)
            and ast.unparse(call).startswith("sys._getframe(")
            and ast.unparse(call) not in OF_ONE_CALL
        )
    ]
    assert fixed == []
