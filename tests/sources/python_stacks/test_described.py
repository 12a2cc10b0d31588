"""Stacks of Pythons that describe their structures, laid out here: on every machine, and as no final release has them.

The order of ``_Py_DebugOffsets`` is that of CPython's headers; the offsets in it are any.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping

import pytest

from gputop.sources.python_stacks import symbols
from gputop.sources.python_stacks.reader import StackReader

FINAL = 0x030E_00F0
HEAD, THREADS, NEXT, CURRENT = 904, 48, 16, 72
FRAME = {0: 96, 1: 8, 2: 0, 3: 56, 5: 74}
CODE = {0: 224, 1: 112, 2: 120, 4: 136, 5: 68, 9: 208}
TEXT = {0: 64, 1: 32, 2: 16, 3: 40}
TAGGED = 1
THREAD, GENERATOR, INTERPRETER, C_STACK = 0, 1, 3, 4


class Memory:
    """Places structures in this process's memory."""

    def __init__(self) -> None:
        self._kept: list[object] = []
        self.code_type = self.put(b"\0" * 16)

    def put(self, data: bytes) -> int:
        """Return the address of a copy, which is a multiple of 16."""
        buffer = ctypes.create_string_buffer(len(data) + 16)
        self._kept.append(buffer)
        address = -(-ctypes.addressof(buffer) // 16) * 16
        ctypes.memmove(address, data, len(data))
        return address

    def text(self, value: str) -> int:
        kind, compact, is_ascii = 1 << 2, 1 << 5, 1 << 6
        return self.put(struct.pack("<QQQQQ", 1, 0, len(value), 0, kind | compact | is_ascii) + value.encode())

    def code(self, function: str, line: int) -> int:
        """A code object whose first eight instructions are one line below its first."""
        table = bytes((0x80 | 13 << 3 | 7, 2))
        lines = self.put(struct.pack("<QQQQ", 1, 0, len(table), 0) + table)
        data = bytearray(240)
        struct.pack_into("<QQ", data, 0, 1, self.code_type)
        for place, value in ((CODE[1], self.text("/home/train.py")), (CODE[2], self.text(function)), (CODE[4], lines)):
            struct.pack_into("<Q", data, place, value)
        struct.pack_into("<i", data, CODE[5], line)
        return self.put(bytes(data))

    def frame(self, owner: int, code: int, previous: int) -> int:
        data = bytearray(FRAME[0])
        for place, value in ((FRAME[1], previous), (FRAME[2], code | TAGGED), (FRAME[3], code + CODE[9] + 4)):
            struct.pack_into("<Q", data, place, value)
        data[FRAME[5]] = owner
        return self.put(bytes(data))

    def runtime(self, frame: int, words: Mapping[int, int]) -> int:
        thread = self.put(struct.pack(f"<{NEXT}xQ{CURRENT - NEXT - 8}xQ", 0, frame))
        interpreter = self.put(struct.pack(f"<{THREADS}xQ", thread))
        data = bytearray(1024)
        data[:8] = b"xdebugpy"
        for place, value in words.items():
            struct.pack_into("<Q", data, 8 + 8 * place, value)
        struct.pack_into("<Q", data, HEAD, interpreter)
        return self.put(bytes(data))


def described(version: int = FINAL, free_threaded: int = 0, shift: int = 0) -> dict[int, int]:
    """The words of Python 3.14, by their places; ``shift``: as if one more had been added."""
    return {
        0: version,
        1: free_threaded,
        4: HEAD,
        8: THREADS,
        21 + 2: NEXT,
        21 + 4: CURRENT,
        **{30 + place: offset for place, offset in FRAME.items()},
        **{38 + place: offset for place, offset in CODE.items()},
        **{76 + shift + place: offset for place, offset in TEXT.items()},
    }


def reader(
    monkeypatch: pytest.MonkeyPatch, memory: Memory, frame: int, words: Mapping[int, int], minor: int = 14
) -> StackReader:
    addresses = {"_PyRuntime": memory.runtime(frame, words), "PyCode_Type": memory.code_type, "PyUnicode_Type": 0}
    monkeypatch.setattr(symbols, "find", lambda pid, wanted: symbols.Interpreter(minor, addresses))
    return StackReader(os.getpid())


def test_a_stack_of_python_3_14_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """References in its frames are tagged, and two kinds of frames only mark calls from C."""
    memory = Memory()
    frame = memory.frame(THREAD, memory.code("<module>", 1), 0)
    frame = memory.frame(C_STACK, memory.code_type, frame)
    frame = memory.frame(GENERATOR, memory.code("batches", 10), frame)
    frame = memory.frame(THREAD, memory.code("train", 40), frame)
    frame = memory.frame(INTERPRETER, 0, frame)
    stack = reader(monkeypatch, memory, frame, described()).read()
    assert stack is not None
    assert [(call.path, call.line, call.function, call.is_generator) for call in stack] == [
        ("/home/train.py", 41, "train", False),
        ("/home/train.py", 11, "batches", True),
        ("/home/train.py", 2, "<module>", False),
    ]


OTHERS = {
    "an early version, whose words may have another order": (described(0x030E_00A6), 14),
    "without the GIL": (described(free_threaded=1), 14),
    "the words of another version": (described(0x030D_00F0), 14),
    "a version with one word more": (described(shift=1), 14),
    "a version that is not known": (described(0x030F_00F0), 15),
}


@pytest.mark.parametrize("name", OTHERS)
def test_of_other_pythons_nothing_is_read(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    memory = Memory()
    words, minor = OTHERS[name]
    frame = memory.frame(THREAD, memory.code("<module>", 1), 0)
    assert reader(monkeypatch, memory, frame, described()).read() is not None
    other = reader(monkeypatch, memory, frame, words, minor)
    assert not other.can_read
    assert other.read() is None
