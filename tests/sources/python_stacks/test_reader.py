"""Stacks of real processes, read from outside; line tables against the interpreter's own reading of them."""

from __future__ import annotations

import dis
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.sources.host import procfs
from gputop.sources.python_stacks import symbols
from gputop.sources.python_stacks.lines import line_at
from gputop.sources.python_stacks.reader import StackReader
from gputop.whereabouts.records import Call
from tests.pythons import SUPPORTED, python_of
from tests.real_processes import Processes, as_nobody, eventually

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(sys.maxsize < 2**32 or sys.version_info >= (3, 15), reason="no known layout of this Python"),
]
SCRIPT = """\
import sys, threading, time

threading.Thread(target=time.sleep, args=(100,), daemon=True).start()


class Größe:
    def rechne(self, number):
        if number == 0:
            print("ready", flush=True)
            while time.monotonic() < 1e12:
                sum(item for item in range(1000))
        return self.rechne(
            number - 1
        )


def batches():
    yield Größe().rechne(3)


def main():
    for _ in batches():
        pass


main()
"""


def started(python: Path, folder: Path) -> subprocess.Popen[str]:
    path = folder / "wörk.py"
    path.write_text(SCRIPT, encoding="utf-8")
    process = subprocess.Popen([python, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_stack_is_read_as_it_is(version: str, tmp_path: Path) -> None:
    process = started(python_of(version), tmp_path)
    try:
        reader = StackReader(process.pid)
        assert reader.can_read
        # The generator expression is on the stack now and then.
        stack = eventually(
            reader.read, lambda calls: calls is not None and len(calls) == 7 and calls[0].line in (10, 11), 0.001
        )
        assert stack is not None
        assert {call.path for call in stack} == {str(tmp_path / "wörk.py")}
        assert [(call.line, call.function) for call in stack[1:]] == [
            *[(12, "rechne")] * 3,
            (18, "batches"),
            (22, "main"),
            (26, "<module>"),
        ]
        assert [call.function for call in stack if call.is_generator] == ["batches"]
        assert process.poll() is None
        for _ in range(300):
            calls = reader.read()
            assert calls is None or calls[-1].function == "<module>", "a torn stack is discarded"
            stat = procfs.read_stat(process.pid)
            assert stat is not None
            assert stat.state in "RS", "it is never stopped"
    finally:
        process.kill()
        process.wait()
    with pytest.raises(OSError, match=r"."):
        reader.read()


def test_descriptors_are_not_kept(processes: Processes) -> None:
    child, _ = processes.ready()
    before = len(os.listdir("/proc/self/fd"))
    reader = StackReader(child.pid)
    eventually(reader.read, lambda calls: calls is not None and calls[0].function == "idle")
    assert len(os.listdir("/proc/self/fd")) == before


def test_other_programs_have_no_stack(processes: Processes) -> None:
    child = processes.start(argv=("-c", "import os; print('ready', flush=True); os.execvp('sleep', ['sleep', '100'])"))
    eventually(lambda: procfs.read_stat(child.pid).comm, lambda name: name == "sleep")
    reader = StackReader(child.pid)
    assert not reader.can_read
    assert reader.read() is None


def test_it_can_be_turned_off(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    child, _ = processes.ready()
    monkeypatch.setenv("GPUTOP_STACKS", "0")
    assert not StackReader(child.pid).can_read


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read as another user")
def test_of_another_users_process_nothing_is_read(processes: Processes) -> None:
    child, _ = processes.ready()
    with as_nobody(), pytest.raises(PermissionError):
        StackReader(child.pid)


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


@pytest.mark.parametrize("module", [dis, subprocess, types, os])
def test_lines_are_those_of_the_interpreter(module: types.ModuleType) -> None:
    path = module.__file__
    assert path is not None
    old, seen = sys.version_info < (3, 11), 0
    for code in codes(compile(Path(path).read_text(encoding="utf-8"), path, "exec")):
        for begin, end, line in code.co_lines():
            for offset in {begin, end - 2}:
                expected = code.co_firstlineno if line is None else line
                assert line_at(code.co_linetable, code.co_firstlineno, offset, old=old) == expected
                seen += 1
    assert seen > 100


@given(table=st.binary(max_size=64), offset=st.integers(-(2**63), 2**63), old=st.booleans())
def test_no_table_of_lines_is_too_strange(table: bytes, offset: int, old: bool) -> None:
    assert isinstance(line_at(table, 7, offset, old=old), int)


@given(data=st.binary(max_size=256), cut=st.integers(0, 4096))
def test_no_program_file_is_too_strange(tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int) -> None:
    folder = tmp_path_factory.getbasetemp()
    for content in (data, b"\x7fELF\x02\x01" + data, Path(sys.executable).read_bytes()[:cut]):
        (folder / "python3.11").write_bytes(content)
        assert symbols.symbols_of(str(folder / "python3.11"), ("_PyRuntime",)) is None


def test_a_torn_stack_is_no_stack(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the bytes are, reading ends, and yields calls or nothing."""
    child, _ = processes.ready()
    reader = StackReader(child.pid)
    read, turn = os.pread, iter(range(10**9))

    def torn(file: int, size: int, at: int) -> bytes:
        number = next(turn)
        data = bytearray(read(file, size, at))
        if data and number % 3 == 0:
            data[number * 7 % len(data)] ^= 1 << number % 8
        return bytes(data)

    monkeypatch.setattr(os, "pread", torn)
    for _ in range(300):
        calls = reader.read()
        assert calls is None or all(isinstance(call, Call) for call in calls)
