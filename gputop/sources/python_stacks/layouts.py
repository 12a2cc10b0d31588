"""Where CPython keeps the stack of a thread: offsets in its structures, by minor version.

The offsets of 3.10 to 3.12 are those of 64-bit builds of the headers (Include/internal, Py_BUILD_CORE); they have not changed
within a minor version. From 3.13 on, an interpreter describes itself (``_Py_DebugOffsets`` in pycore_debug_offsets.h), and each
minor version in an order of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

COOKIE = b"xdebugpy"
OFFSETS_BYTES = 1024
"""More than ``_Py_DebugOffsets`` of Python 3.14 takes."""
GENERATOR = 1
"""Owner of a frame that belongs to a generator or coroutine (FRAME_OWNED_BY_GENERATOR)."""
MARKERS = 3
"""The first owner of frames that only mark a call from C (FRAME_OWNED_BY_CSTACK; from 3.14 on also ..._INTERPRETER)."""
TAGS = 3
"""Bits of a reference in a frame that are no part of its address (Py_TAG_BITS, from 3.14 on): objects are aligned."""


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
    frame_globals: int
    frame_locals: int
    """Where the local variables begin."""
    code_variables: tuple[int, ...]
    """Names of the local variables: from 3.11 on in one tuple, before apart from those that closures share."""
    text_length: int
    text_state: int
    text_ascii: int
    """Size of the header of an ASCII string, which the text follows."""
    text_other: int
    bytes_length: int
    bytes_data: int
    interpreter_next: int = 0
    """The interpreter that was made before. The first one, whose main thread is the process's, has none."""
    type_at: int = 8
    frame_generator: int = 88
    """In 3.10, where a frame points to its generator."""


_TEXT_OLD = {"text_length": 16, "text_state": 32, "text_ascii": 48, "text_other": 72, "bytes_length": 16, "bytes_data": 32}
_TEXT = {**_TEXT_OLD, "text_ascii": 40, "text_other": 56}
_KNOWN = {
    10: Layout(32, 8, 8, 24, None, 112, 24, 32, 96, None, 176, 40, 104, 112, 120, None, 48, 352, (72, 88, 80), **_TEXT_OLD),
    11: Layout(40, 16, 8, 56, 8, 80, 48, 32, 56, 69, 192, 72, 112, 120, 136, 184, 8, 72, (96,), **_TEXT_OLD),
    12: Layout(40, 72, 8, 56, 0, 80, 8, 0, 56, 70, 200, 68, 112, 120, 136, 192, 24, 72, (96,), **_TEXT),
}


class _Places(NamedTuple):
    """Which words of ``_Py_DebugOffsets`` begin the description of a structure, with its size. The version is word 0."""

    thread: int
    frame: int
    code: int
    text: int


_DESCRIBED = {13: _Places(18, 27, 33, 66), 14: _Places(21, 30, 38, 76)}
_FRAME_GLOBALS = 24
"""The only place that a description leaves out: after the code, the previous frame and the function."""
_INTERPRETERS_HEAD, _INTERPRETER_NEXT, _THREADS_HEAD = 4, 7, 8
_RELEASE_CANDIDATE = 0xC0
"""In a version's lowest byte. Before it, the order may still change."""


def layout(minor: int, runtime: Callable[[int], bytes]) -> Layout | None:
    """Return the layout of Python 3.``minor``; None if it is not known.

    ``runtime`` returns the first bytes of ``_PyRuntime``, as many as it is asked for.
    """
    return _described(minor, runtime(OFFSETS_BYTES)) if minor in _DESCRIBED else _KNOWN.get(minor)


def _described(minor: int, data: bytes) -> Layout | None:
    """Return the layout that an interpreter states; None unless it is one of this version whose threads share one lock."""
    words = struct.unpack_from(f"<{(len(data) - 8) // 8}Q", data, 8)
    version, is_free_threaded = words[:2]
    if (
        not data.startswith(COOKIE)
        or version >> 16 != 0x0300 + minor
        or version & 0xFF < _RELEASE_CANDIDATE
        or is_free_threaded
    ):
        return None
    at = _DESCRIBED[minor]
    _, text_state, text_length, text_ascii = words[at.text : at.text + 4]
    if (text_state, text_length, text_ascii) != (_TEXT["text_state"], _TEXT["text_length"], _TEXT["text_ascii"]):
        return None  # the words are in another order, or texts are
    return Layout(
        runtime_interpreters=words[_INTERPRETERS_HEAD],
        interpreter_next=words[_INTERPRETER_NEXT],
        interpreter_threads=words[_THREADS_HEAD],
        thread_next=words[at.thread + 2],
        thread_frame=words[at.thread + 4],
        frame_indirect=None,
        frame_bytes=words[at.frame],
        frame_previous=words[at.frame + 1],
        frame_code=words[at.frame + 2],
        frame_instruction=words[at.frame + 3],
        frame_owner=words[at.frame + 5],
        code_bytes=words[at.code],
        code_file=words[at.code + 1],
        code_name=words[at.code + 2],
        code_lines=words[at.code + 4],
        code_first_line=words[at.code + 5],
        code_instructions=words[at.code + 9],
        frame_globals=_FRAME_GLOBALS,
        frame_locals=words[at.frame + 4],
        code_variables=(words[at.code + 7],),
        **_TEXT,
    )
