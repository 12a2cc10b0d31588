"""Which line of a stack is told as the user's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gputop.tracking.standing.stack import Frame, frames_of, where

SITE = "/venv/lib/python3.11/site-packages"


def is_library(path: str) -> bool:
    return path.startswith((f"{SITE}/torch/", "<", "/usr/lib/python3.11/"))


READS = Frame(f"{SITE}/PIL/Image.py", 3000, "open")
TORCH = Frame(f"{SITE}/torch/utils/data/dataloader.py", 700, "__next__")
ITEM = Frame("/home/me/data.py", 17, "__getitem__")
MAIN = Frame("/home/me/train.py", 61, "<module>")
INSTALLED = Frame(f"{SITE}/project/train.py", 88, "step")
COMMAND = Frame("/venv/bin/project-train", 8, "<module>")


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        ((READS, ITEM, TORCH, MAIN), "data.py:17"),
        ((TORCH, MAIN), "train.py:61"),
        (
            (Frame(f"{SITE}/sympy/series.py", 24, "<module>"), Frame(f"{SITE}/torch/__init__.py", 5, "<module>"), MAIN),
            "train.py:61",
        ),
        ((TORCH, INSTALLED, COMMAND), "train.py:88"),
        ((READS, Frame(f"{SITE}/project/data.py", 5, "load"), Frame("<frozen runpy>", 88, "_run_code")), "Image.py:3000"),
        ((TORCH,), None),
        ((Frame("<string>", 1, "<module>"), ITEM), "data.py:17"),
    ],
    ids=["a library that gputop does not know", "one that it knows", "an import", "an own package", "-m", "none", "a string"],
)
def test_the_line_is_of_the_users_own_files_before_installed_packages(frames: tuple[Frame, ...], line: str | None) -> None:
    assert where(frames, is_library).line == line


def test_what_python_gives_no_line_is_at_the_first_line_of_its_function() -> None:
    code = SimpleNamespace(co_filename="/home/me/train.py", co_firstlineno=14, co_name="<listcomp>")
    between: Any = SimpleNamespace(f_code=code, f_lineno=None, f_back=None)
    assert [str(frame) for frame in frames_of(between)] == ["train.py:14 <listcomp>"]
