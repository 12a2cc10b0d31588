"""Reads the calls that the main thread of another Python process is in, from that process's memory.

The process runs on meanwhile: it is not stopped, traced or written to, and keeps no trace of it. So a stack that changes while
it is read may be torn; whatever does not fit together is discarded. Needs what a debugger needs: the same user, and a
kernel that allows it (Yama, containers).
"""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import dataclass, field

from gputop.sources.python_stacks import symbols
from gputop.sources.python_stacks.layouts import GENERATOR, MARKERS, TAGS, Layout, layout
from gputop.sources.python_stacks.lines import line_at
from gputop.whereabouts.records import Call

OFF = "GPUTOP_STACKS"
"""With the value 0 in the environment of gputop, no stack is read."""
CALLS_MAX = 200
"""A deeper stack is not read to its end."""
_LISTED_MAX = 1024
_TEXT_MAX = 1024
_TABLE_MAX_BYTES = 2**18
_CODES_MAX = 512
_WANTED = ("_PyRuntime", "PyCode_Type")
_WORD = struct.Struct("<Q")
_INT = struct.Struct("<i")
_OUTERMOST = frozenset(("<module>", "_run_module_as_main"))
"""Where every stack of a main thread ends: another one was read while it changed."""


class _TornError(Exception):
    """What was read does not fit together."""


@dataclass(slots=True)
class _Code:
    """What is known about a code object. ``constant`` are the bytes of it that tell it from a later one at the same place."""

    constant: bytes
    path: str
    function: str
    lines: dict[int, int] = field(default_factory=dict)
    """Offset of an instruction, in bytes, -> its line."""


class StackReader:
    """Reads stacks of one process. Not thread-safe."""

    def __init__(self, pid: int) -> None:
        """Look at the process.

        Raises:
            OSError: it is gone, or the system does not let this user read it.
        """
        self._pid = pid
        self._codes: dict[int, _Code] = {}
        self._memory = -1
        self._layout: Layout | None = None
        found = symbols.find(pid, _WANTED) if os.environ.get(OFF) != "0" else None
        if found is None:
            return
        self._runtime, self._code_type = (found.addresses[name] for name in _WANTED)
        self._old_lines = found.minor == 10
        with _Opened(self):
            try:
                self._layout = layout(found.minor, lambda size: self._read(self._runtime, size))
            except (_TornError, struct.error):
                self._layout = None

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
        with _Opened(self):
            try:
                return self._calls(known, self._main_thread(known))
            except (_TornError, struct.error, UnicodeDecodeError):
                return None

    def _main_thread(self, known: Layout) -> int:
        """Return the address of the oldest thread of the oldest interpreter."""
        interpreter = self._last(self._word(self._runtime + known.runtime_interpreters), known.interpreter_next)
        return self._last(self._word(interpreter + known.interpreter_threads), known.thread_next)

    def _last(self, first: int, following: int) -> int:
        """Return the address of the last structure of a list. ``following``: where each points to the next one."""
        at = first
        for _ in range(_LISTED_MAX):
            following_at = self._word(at + following)
            if not following_at:
                return at
            at = following_at
        raise _TornError

    def _calls(self, known: Layout, thread: int) -> tuple[Call, ...]:
        frame = self._word(thread + known.thread_frame)
        if known.frame_indirect is not None:
            frame = self._word(frame + known.frame_indirect)
        calls: list[Call] = []
        while frame:
            if len(calls) >= CALLS_MAX:
                return tuple(calls)
            data = self._read(frame, known.frame_bytes)
            if known.frame_owner is None or data[known.frame_owner] < MARKERS:
                call = self._call(known, data)
                if call is not None:
                    calls.append(call)
            frame = _WORD.unpack_from(data, known.frame_previous)[0]
        if not calls or calls[-1].function not in _OUTERMOST:
            raise _TornError
        return tuple(calls)

    def _call(self, known: Layout, frame: bytes) -> Call | None:
        """Return the call of a frame; None if only the interpreter's own code runs in it."""
        at = _WORD.unpack_from(frame, known.frame_code)[0] & ~TAGS
        head = self._read(at, known.code_bytes)
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
                raise _TornError
            code = _Code(constant, sys.intern(self._text(known, file)), sys.intern(self._text(known, name)))
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

    def _text(self, known: Layout, at: int) -> str:
        head = self._read(at, known.text_other)
        length, state = _WORD.unpack_from(head, known.text_length)[0], head[known.text_state]
        width, is_compact, is_ascii = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        if length > _TEXT_MAX or not is_compact or width not in (1, 2, 4):
            raise _TornError
        data = self._read(at + (known.text_ascii if is_ascii else known.text_other), length * width) if length else b""
        return data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width])

    def _bytes(self, known: Layout, at: int) -> bytes:
        length = self._word(at + known.bytes_length)
        if length > _TABLE_MAX_BYTES:
            raise _TornError
        return self._read(at + known.bytes_data, length) if length else b""

    def _word(self, at: int) -> int:
        return int(_WORD.unpack(self._read(at, 8))[0])

    def _read(self, at: int, size: int) -> bytes:
        if not 0 < at < 2**63 - size:
            raise _TornError
        try:
            data = os.pread(self._memory, size, at)
        except OSError:  # no memory there
            raise _TornError from None
        if len(data) != size:
            raise _TornError
        return data


class _Opened:
    """The memory of the process, open for as long as it is read."""

    def __init__(self, reader: StackReader) -> None:
        self._reader = reader

    def __enter__(self) -> None:
        self._reader._memory = os.open(f"/proc/{self._reader._pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def __exit__(self, *_: object) -> None:
        os.close(self._reader._memory)
