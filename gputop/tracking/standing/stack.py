"""Where a thread is, from its Python frames: the user's line, the collective that it is in, and the phase. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType

FRAMES_MAX = 200
"""How many calls of a stack are read: an import within imports has some five for each module."""
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_COMMANDS = f"{os.sep}bin{os.sep}"
"""Where the commands are that start installed packages: files without an ending."""
STACK_SHOWN = 8
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The package gputop.tracking."""
_COLLECTIVES_FILE = os.path.join("torch", "distributed", "distributed_c10d.py")
_FUNCTIONAL_FILE = os.path.join("torch", "distributed", "_functional_collectives.py")
_SET_UP_FILE = os.path.join("torch", "distributed", "utils.py")
_SET_UP = {"_verify_param_shape_across_processes": "all_gather", "_sync_module_states": "broadcast"}
"""What DistributedDataParallel and FSDP call when a model is wrapped, and the collective that each waits in."""
_WRAPPERS = frozenset({"wrapper", "_wrapped", "inner"})
"""Torch's decorators around its collectives, and uninformative names."""
_NO_COLLECTIVES = frozenset({"is_initialized", "get_rank", "get_world_size", "get_backend", "destroy_process_group"})


@dataclass(frozen=True, slots=True)
class Frame:
    """One call on a stack: the file's whole path, the line in it, and the function."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.path)}:{self.line} {self.function}"


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a program. ``line`` is in the user's code ("train.py:88"), None if none of it is on the stack."""

    line: str | None
    function: str | None
    operation: str | None
    """The collective that it is in, as torch calls it: "all_reduce"; None if it is in none."""
    stack: tuple[str, ...]
    """The calls, innermost first, from the innermost up to ``STACK_SHOWN``."""


def frames_of(frame: FrameType | None) -> Iterator[Frame]:
    """Yield the calls of a stack, innermost first, without gputop's own."""
    for _ in range(FRAMES_MAX):
        if frame is None:
            return
        code = frame.f_code
        if not code.co_filename.startswith(_OWN):
            # Python gives no line to what it adds itself, such as the end of a comprehension.
            yield Frame(code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name)
        frame = frame.f_back


def where(frames: Iterable[Frame], is_library: Callable[[str], bool]) -> Where:
    """Return the place of a stack; ``is_library`` says whether a path is a library's."""
    calls = list(frames)
    own = _own(calls, is_library)
    return Where(
        line=None if own is None else f"{os.path.basename(own.path)}:{own.line}",
        function=None if own is None else own.function,
        operation=_operation(calls),
        stack=tuple(map(str, calls[:STACK_SHOWN])),
    )


def _own(calls: list[Frame], is_library: Callable[[str], bool]) -> Frame | None:
    """Return the innermost call of the user's own files; without one, that of a package that may be the user's as well."""
    installed = None
    for call in calls:
        if call.path.startswith("<") or is_library(call.path):
            continue
        if not _is_installed(call.path):
            return call
        installed = installed or call
    return installed


def _is_installed(path: str) -> bool:
    return any(folder in path for folder in _INSTALLED) or (_COMMANDS in path and not path.endswith(".py"))


def _operation(calls: list[Frame]) -> str | None:
    """Return the collective that was called: the outermost of torch's functions that are on the stack together."""
    found = None
    for call in calls:
        if call.path.endswith((_COLLECTIVES_FILE, _FUNCTIONAL_FILE)):
            name = call.function
            if name not in _WRAPPERS and name not in _NO_COLLECTIVES and not name.startswith("_"):
                found = name
        elif call.path.endswith(_SET_UP_FILE) and call.function in _SET_UP:
            found = _SET_UP[call.function]
        elif found is not None and "torch" + os.sep not in call.path and os.sep + "contextlib.py" not in call.path:
            break
    return found
