"""Reads the calls that the main thread of another Python process is in, from that process's memory.

The process runs on meanwhile: it is not stopped, traced or written to, and keeps no trace of it. So a stack that changes while
it is read may be torn; whatever does not fit together is discarded. Needs what a debugger needs: the same user, and a
kernel that allows it (Yama, containers).
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gputop.sources.python_stacks import symbols
from gputop.sources.python_stacks.holdings import DDP, Updated, Variable, holdings, updated
from gputop.sources.python_stacks.layouts import GENERATOR, MARKERS, TAGS, Layout, layout
from gputop.sources.python_stacks.lines import line_at
from gputop.sources.python_stacks.memory import Memory, TornError
from gputop.sources.python_stacks.objects import Objects
from gputop.whereabouts.records import Call, Holdings

OFF = "GPUTOP_STACKS"
"""With the value 0 in the environment of gputop, no stack is read."""
CALLS_MAX = 200
"""A deeper stack is not read to its end."""
_LISTED_MAX = 1024
_TABLE_MAX_BYTES = 2**18
_CODES_MAX = 512
_WANTED = ("_PyRuntime", "PyCode_Type", "PyUnicode_Type")
_WORD = struct.Struct("<Q")
_INT = struct.Struct("<i")
_TORN = (TornError, struct.error, ValueError, LookupError, OverflowError)
"""What reading raises where memory is torn: invalid text, a number that is too large."""
_OUTERMOST = frozenset(("<module>", "_run_module_as_main"))
"""Where every stack of a main thread ends: another one was read while it changed."""


@dataclass(slots=True)
class _Code:
    """What is known about a code object. ``constant`` are the bytes of it that tell it from a later one at the same place."""

    constant: bytes
    path: str
    function: str
    lines: dict[int, int] = field(default_factory=dict)
    """Offset of an instruction, in bytes, -> its line."""


class _Frame(NamedTuple):
    """A frame on a stack: where it is, the bytes of its head, and its call."""

    at: int
    head: bytes
    call: Call


class StackReader:
    """Reads stacks of one process. Not thread-safe."""

    def __init__(self, pid: int) -> None:
        """Look at the process.

        Raises:
            OSError: it is gone, or the system does not let this user read it.
        """
        self._codes: dict[int, _Code] = {}
        self._memory = Memory(pid)
        self._layout: Layout | None = None
        self._ddp: int | None = None
        self._optimizer: int | None = None
        found = symbols.find(pid, _WANTED) if os.environ.get(OFF) != "0" else None
        if found is None:
            return
        self._runtime, self._code_type, text_type = (found.addresses[name] for name in _WANTED)
        self._old_lines = found.minor == 10
        with self._memory as memory:
            try:
                self._layout = layout(found.minor, lambda size: memory.read(self._runtime, size))
            except (TornError, struct.error):
                return
        if self._layout is not None:
            self._objects = Objects(memory, self._layout, found.minor, text_type)

    @property
    def can_read(self) -> bool:
        """Whether it is a Python whose structures are known: CPython 3.10 to 3.14, with the GIL, on a 64-bit Linux."""
        return self._layout is not None

    def read(self) -> tuple[Call, ...] | None:
        """Return the calls of the main thread, innermost first; None if it runs no Python, or if its stack changed meanwhile.

        Raises:
            OSError: the process is gone, or cannot be read any more.
        """
        known = self._layout
        if known is None:
            return None
        with self._memory:
            try:
                return tuple(frame.call for frame in self._frames(known))
            except _TORN:
                return None

    def read_holdings(self, is_own: Callable[[str], bool]) -> Holdings | None:
        """Return what the code on the main thread's stack holds; None as above, or if it holds nothing of torch's.

        Args:
            is_own: Whether the file at a path is the user's own: only its variables are looked at.

        Raises:
            OSError: the process is gone, or cannot be read any more.
        """
        known = self._layout
        if known is None:
            return None
        with self._memory:
            self._objects.begin()
            try:
                found, self._ddp, self._optimizer = holdings(self._objects, self._variables(known, is_own))
            except _TORN:
                return None
        return found if found.models is not None or found.loader is not None else None

    def read_exchanges(self) -> bool | None:
        """Return whether the model in DDP that ``read_holdings`` found exchanges gradients now: it is not under no_sync.

        None if it found none, or if that cannot be read.

        Raises:
            OSError: the process is gone, or cannot be read any more.
        """
        if self._ddp is None:
            return None
        with self._memory:
            try:
                is_there = DDP in self._objects.kind(self._ddp).bases
                return self._objects.flag(self._ddp, "require_backward_grad_sync") if is_there else None
            except _TORN:
                return None

    def read_updated(self) -> Updated | None:
        """Return how many tensors the optimizer that ``read_holdings`` found has updated, beside the only model in DDP.

        None if it found none, or several, if DDP looks for parameters that take no part, or if that cannot be read.

        Raises:
            OSError: the process is gone, or cannot be read any more.
        """
        if self._ddp is None or self._optimizer is None:
            return None
        with self._memory:
            try:
                return updated(self._objects, self._ddp, self._optimizer)
            except _TORN:
                return None

    def _variables(self, known: Layout, is_own: Callable[[str], bool]) -> Iterator[Variable]:
        """Yield the variables of the user's own functions on the stack, innermost first, and of the module around them."""
        for at, frame, call in self._frames(known):
            if not is_own(call.path):
                continue
            if call.function == "<module>":
                for name, place in self._objects.items(_WORD.unpack_from(frame, known.frame_globals)[0]):
                    yield Variable(name, place)
                continue
            code = _WORD.unpack_from(frame, known.frame_code)[0] & ~TAGS
            tuples = (self._memory.word(code + place) for place in known.code_variables)
            names = [name for at_names in tuples for name in self._objects.elements(at_names)]
            values = self._memory.read(at + known.frame_locals, 8 * len(names)) if names else b""
            for name_at, (value,) in zip(names, _WORD.iter_unpack(values), strict=True):
                place = value & ~TAGS
                if place and self._objects.kind(place).name == "cell":
                    place = self._memory.word(place + 16)
                if place:
                    yield Variable(self._objects.text(name_at), place)

    def _main_thread(self, known: Layout) -> int:
        """Return the address of the oldest thread of the oldest interpreter."""
        interpreter = self._last(self._memory.word(self._runtime + known.runtime_interpreters), known.interpreter_next)
        return self._last(self._memory.word(interpreter + known.interpreter_threads), known.thread_next)

    def _last(self, first: int, following: int) -> int:
        """Return the address of the last structure of a list. ``following``: where each points to the next one."""
        at = first
        for _ in range(_LISTED_MAX):
            following_at = self._memory.word(at + following)
            if not following_at:
                return at
            at = following_at
        raise TornError

    def _frames(self, known: Layout) -> Sequence[_Frame]:
        """Return the frames of the main thread, innermost first."""
        frame = self._memory.word(self._main_thread(known) + known.thread_frame)
        if known.frame_indirect is not None:
            frame = self._memory.word(frame + known.frame_indirect)
        frames: list[_Frame] = []
        while frame:
            if len(frames) >= CALLS_MAX:
                return frames
            data = self._memory.read(frame, known.frame_bytes)
            if known.frame_owner is None or data[known.frame_owner] < MARKERS:
                call = self._call(known, data)
                if call is not None:
                    frames.append(_Frame(frame, data, call))
            frame = _WORD.unpack_from(data, known.frame_previous)[0]
        if not frames or frames[-1].call.function not in _OUTERMOST:
            raise TornError
        return frames

    def _call(self, known: Layout, frame: bytes) -> Call | None:
        """Return the call of a frame; None if only the interpreter's own code runs in it."""
        at = _WORD.unpack_from(frame, known.frame_code)[0] & ~TAGS
        head = self._memory.read(at, known.code_bytes)
        first = _INT.unpack_from(head, known.code_first_line)[0]
        file, name, table = (
            _WORD.unpack_from(head, place)[0] for place in (known.code_file, known.code_name, known.code_lines)
        )
        if not first and file == name:  # _Py_InitCleanup, which calls the __init__ of a class that has been called before
            return None
        constant = struct.pack("<qQQQ", first, file, name, table)
        code = self._codes.get(at)
        if code is None or code.constant != constant:
            if _WORD.unpack_from(head, known.type_at)[0] != self._code_type:
                raise TornError
            code = _Code(constant, sys.intern(self._objects.text(file)), sys.intern(self._objects.text(name)))
            if len(self._codes) >= _CODES_MAX:
                self._codes.clear()
            self._codes[at] = code
        if known.code_instructions is None:
            offset = 2 * _INT.unpack_from(frame, known.frame_instruction)[0]
        else:
            offset = _WORD.unpack_from(frame, known.frame_instruction)[0] - at - known.code_instructions
        line = code.lines.get(offset)
        if line is None:
            line = code.lines[offset] = line_at(self._bytes(known, table), first, offset, old=self._old_lines)
        if known.frame_owner is None:
            is_generator = _WORD.unpack_from(frame, known.frame_generator)[0] != 0
        else:
            is_generator = frame[known.frame_owner] == GENERATOR
        return Call(code.path, line, code.function, is_generator)

    def _bytes(self, known: Layout, at: int) -> bytes:
        length = self._memory.word(at + known.bytes_length)
        if length > _TABLE_MAX_BYTES:
            raise TornError
        return self._memory.read(at + known.bytes_data, length) if length else b""
