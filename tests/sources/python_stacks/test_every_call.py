"""Calls of every kind in real processes of each Python: what is read from outside is what the process says of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gputop.sources.python_stacks.reader import CALLS_MAX, StackReader
from gputop.whereabouts.records import Call
from tests.pythons import SUPPORTED, python_of

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(sys.maxsize < 2**32, reason="no known layout of this Python"),
]
PRELUDE = """\
import asyncio, functools, inspect, json, os, sys

LENDS_ITS_FRAME = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def here(*_):
    "Says which calls it is in, and waits until it may go on."
    calls, frame = [], sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        calls.append((code.co_filename, frame.f_lineno, code.co_name, bool(code.co_flags & LENDS_ITS_FRAME)))
        frame = frame.f_back
    os.write(1, json.dumps(calls).encode() + b"\\n")
    os.read(0, 1)
"""
KINDS = (
    PRELUDE
    + """

def generator(depth):
    if depth:
        yield from generator(depth - 1)
    else:
        yield here()


async def coroutine(depth):
    return await coroutine(depth - 1) if depth else here()


async def asynchronous_generator():
    await coroutine(1)
    yield here()


async def asynchronous():
    async with asyncio.TaskGroup() if hasattr(asyncio, "TaskGroup") else asyncio.Lock():
        async for _ in asynchronous_generator():
            here()


def deep(depth):
    return deep(depth - 1) if depth else here()


class Made:
    def __init__(self):
        here()


class Special:
    def __init__(self, value=None):
        here()

    def __getattr__(self, name):
        here()

    def __add__(self, other):
        here()

    def __getitem__(self, place):
        here()

    def __enter__(self):
        here()

    def __exit__(self, *_):
        here()

    def __iter__(self):
        yield here()

    def __lt__(self, other):
        here()

    @property
    def value(self):
        here()

    def __del__(self):
        here()


def special():
    Made()
    thing = Special()
    thing.missing
    thing.value
    thing + 1
    thing[1]
    with thing:
        for _ in thing:
            pass
    sorted([thing, thing])
    del thing


def called_from_c():
    sorted([1, 2], key=lambda number: here() or number)
    list(map(here, [1]))
    functools.reduce(lambda one, other: here(), [1, 2])
    json.dumps(object(), default=lambda thing: here())
    functools.partial(here, 1)()
    [here() for _ in range(1)]
    any(here() for _ in range(1))
    exec("def written():\\n    here()\\nwritten()")
    eval("here()")


def raised():
    try:
        raise ValueError
    except ValueError:
        here()
    finally:
        here()


for _ in range(30):  # so often that Python specializes how it calls
    list(generator(2))
    asyncio.run(asynchronous())
    deep(10)
    deep(150)
    special()
    called_from_c()
    raised()
os.write(1, b"end\\n")
"""
)
OPTIONS = {
    "plain": ((3, 10), (), {}),
    "perf": ((3, 12), ("-X", "perf"), {}),
    "jit": ((3, 14), (), {"PYTHON_JIT": "1"}),
}
"""What changes how calls are made: the first version that has it, options, environment."""
OTHER_INTERPRETER = """
import threading

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

inner, outer = os.pipe()
code = f"import os\\nos.write({outer}, b'.')\\nwhile True: os.read(0, 0)"
threading.Thread(target=interpreters.run_string, args=(interpreters.create(), code), daemon=True).start()
os.read(inner, 1)


def main():
    here()


main()
"""
THREADS = """
import threading

running = threading.Barrier(33)


def work():
    running.wait()
    while True:
        sum(number for number in range(100))


for _ in range(32):
    threading.Thread(target=work, daemon=True).start()
running.wait()


def main():
    list(map(here, [1]))


main()
"""
SHORT = """
def shrink(depth):
    return depth and shrink(depth - 1)


for _ in range(50):
    shrink(5)
"""


@contextmanager
def started(
    python: Path, path: Path, code: str, options: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    path.write_text(code)
    with subprocess.Popen(
        [python, *options, path],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)  # what "-X perf" writes


def stated(process: subprocess.Popen[bytes]) -> list[Call] | None:
    """Return the calls that the process says it is in; None at its end."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "it failed"
    return None if line == b"end\n" else [Call(*call) for call in json.loads(line)]


def go_on(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b".")
    process.stdin.flush()


def outer_calls(calls: tuple[Call, ...] | None) -> list[Call]:
    """Return the calls except ``here``, which is at another line when it waits."""
    assert calls is not None
    assert calls[0].function == "here"
    return list(calls[1:])


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("version", SUPPORTED)
def test_calls_of_every_kind(version: str, option: str, tmp_path: Path) -> None:
    python = python_of(version)
    since, options, environment = OPTIONS[option]
    if tuple(int(part) for part in version.split(".")) < since:
        pytest.skip(f"Python {version} has no {option}")
    seen = set()
    with started(python, tmp_path / "train.py", KINDS, options, environment) as process:
        expected = stated(process)
        reader = StackReader(process.pid)
        while expected is not None:
            assert outer_calls(reader.read()) == expected[: CALLS_MAX - 1]
            seen.update(call.function for call in expected)
            go_on(process)
            expected = stated(process)
    assert seen >= {"generator", "coroutine", "__del__", "written", "__lt__", "iterencode", "deep"}


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_main_thread_is_read_next_to_another_interpreter(version: str, tmp_path: Path) -> None:
    with started(python_of(version), tmp_path / "train.py", PRELUDE + OTHER_INTERPRETER) as process:
        expected = stated(process)
        assert outer_calls(StackReader(process.pid).read()) == expected


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_main_thread_is_read_next_to_many_busy_threads(version: str, tmp_path: Path) -> None:
    with started(python_of(version), tmp_path / "train.py", PRELUDE + THREADS) as process:
        expected = stated(process)
        for _ in range(100):
            assert outer_calls(StackReader(process.pid).read()) == expected


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_process_that_starts_or_ends_has_its_own_calls_or_none(version: str, tmp_path: Path) -> None:
    python, path = python_of(version), tmp_path / "train.py"
    stacks: set[tuple[Call, ...] | None] = set()
    for _ in range(5):
        with started(python, path, SHORT) as process:
            with suppress(OSError):
                while process.poll() is None:
                    stacks.add(StackReader(process.pid).read())
            process.wait()
            assert process.returncode == 0
    for calls in stacks - {None}:
        assert calls is not None
        assert all(call.line >= 0 and call.function.isprintable() for call in calls)
        functions = [call.function for call in calls if call.path == str(path)]
        assert functions == [] or functions == ["shrink"] * (len(functions) - 1) + ["<module>"]


@pytest.mark.parametrize("version", ["3.13t", "3.14t"])
def test_of_a_python_without_the_gil_nothing_is_read(version: str, tmp_path: Path) -> None:
    with started(python_of(version), tmp_path / "train.py", PRELUDE + "here()") as process:
        assert stated(process)
        assert not StackReader(process.pid).can_read
