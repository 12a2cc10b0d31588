"""Where CPython keeps the stack of a thread: offsets in its structures, by minor version.

The offsets of 3.10 to 3.12 are those of 64-bit builds of the headers (Include/internal, Py_BUILD_CORE); they have not changed
within a minor version. From 3.13 on, an interpreter describes itself (``_Py_DebugOffsets``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

COOKIE = b"xdebugpy"
OFFSETS_BYTES = 1024
"""More than ``_Py_DebugOffsets`` of Python 3.13 takes."""
GENERATOR = 1
"""Owner of a frame that belongs to a generator or coroutine (FRAME_OWNED_BY_GENERATOR)."""
C_STACK = 3
"""Owner of a frame that only marks a call from C (FRAME_OWNED_BY_CSTACK)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets in bytes, each in the structure that its name begins with."""

    runtime_interpreters: int
    interpreter_threads: int
    thread_next: int
    thread_frame: int
    """The newest frame of a thread, or what points to it: see ``frame_indirect``."""
    frame_indirect: int | None
    """From 3.11 to 3.12, a thread points to a record that contains the newest frame at this offset."""
    frame_bytes: int
    frame_previous: int
    frame_code: int
    frame_instruction: int
    frame_owner: int | None
    """Who owns a frame; None in 3.10, where a frame points to its generator."""
    code_bytes: int
    code_first_line: int
    code_file: int
    code_name: int
    code_lines: int
    code_instructions: int | None
    """Where the instructions begin in a code object; None if frames contain a number of an instruction (3.10)."""
    text_length: int
    text_state: int
    text_ascii: int
    """Size of the header of an ASCII string, which the text follows."""
    text_other: int
    bytes_length: int
    bytes_data: int
    type_at: int = 8
    frame_generator: int = 88
    """In 3.10, where a frame points to its generator."""


_TEXT_OLD = {"text_length": 16, "text_state": 32, "text_ascii": 48, "text_other": 72, "bytes_length": 16, "bytes_data": 32}
_TEXT = {**_TEXT_OLD, "text_ascii": 40, "text_other": 56}
_KNOWN = {
    10: Layout(32, 8, 8, 24, None, 112, 24, 32, 96, None, 176, 40, 104, 112, 120, None, **_TEXT_OLD),
    11: Layout(40, 16, 8, 56, 8, 80, 48, 32, 56, 69, 192, 72, 112, 120, 136, 184, **_TEXT_OLD),
    12: Layout(40, 72, 8, 56, 0, 80, 8, 0, 56, 70, 200, 68, 112, 120, 136, 192, **_TEXT),
}
_DESCRIBED = 13
_VERSION_MASK = 0xFFFF0000


def layout(minor: int, runtime: Callable[[int], bytes]) -> Layout | None:
    """Return the layout of Python 3.``minor``; None if it is not known.

    ``runtime`` returns so many first bytes of ``_PyRuntime``.
    """
    return _described(runtime(OFFSETS_BYTES)) if minor == _DESCRIBED else _KNOWN.get(minor)


def _described(data: bytes) -> Layout | None:
    """Return the layout that an interpreter states; None unless it is one of a Python 3.13 whose threads share one lock."""
    words = struct.unpack_from(f"<{(len(data) - 8) // 8}Q", data, 8)
    if not data.startswith(COOKIE) or words[0] & _VERSION_MASK != 0x030D0000 or words[1]:
        return None
    threads, frame, code = words[18:27], words[27:33], words[33:43]
    return Layout(
        runtime_interpreters=words[4],
        interpreter_threads=words[8],
        thread_next=threads[2],
        thread_frame=threads[4],
        frame_indirect=None,
        frame_bytes=frame[0],
        frame_previous=frame[1],
        frame_code=frame[2],
        frame_instruction=frame[3],
        frame_owner=frame[5],
        code_bytes=code[0],
        code_first_line=code[5],
        code_file=code[1],
        code_name=code[2],
        code_lines=code[4],
        code_instructions=code[9],
        **_TEXT,
    )
