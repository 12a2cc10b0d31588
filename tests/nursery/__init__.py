"""Trainings for tests without ``import torch`` for each, which is most of what a short one costs: 2 of 2.5 s of CPU.

One process imports torch for all processes of a test run, before any thread exists, and forks. A fork is a real process that
runs a real script, with real journals and real hooks; ``program.py`` says what it does to be as if Python had just started it.

Tests opt in with the marker ``warm``. What must see Python or torch start has a real start: ``gputop run`` itself and its
sitecustomize, import hooks, torch.compile, torchrun itself, processes that multiprocessing spawns, and whatever looks in
/proc for the command line or the first environment of a training; so has what must see torch freed at the end of Python. In a
module that is ``warm``, such a test says so with ``real_start("why")``. Commands other than a Python with a script, also
below ``gputop run`` and torchrun on two ranks, are always started.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest

from gputop.cli.parser import parse_run
from gputop.recipes import run_command

_RUN = ("-m", "gputop", "run")
_TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
_PROGRAM = """
import socket, sys
sys.path[0] = sys.argv[2]
import program
del sys.path[0]
exec(program.serve(socket.socket(fileno=int(sys.argv[1]))))
"""


class Training:
    """A fork that runs a script: what tests use of ``subprocess.Popen[str]``. One without pipes has no streams."""

    def __init__(self, words: Sequence[str], pid: int, status: int, streams: Sequence[IO[str]]) -> None:
        self.args, self.pid = list(words), pid
        if streams:
            self.stdin, self.stdout, self.stderr = streams
        self._status = status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it ended, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return how it ended."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            told = os.read(self._status, 16)
            os.close(self._status)
            assert told, "the nursery ended"
            self.returncode = int(told)
        return self.returncode

    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:  # noqa: A002 - as in Popen
        """Write to it, read until both streams end, and wait for it."""
        end = None if timeout is None else time.monotonic() + timeout
        said = ["", ""]

        def read(number: int, stream: IO[str]) -> None:
            said[number] = stream.read()

        open_streams = [each for each in enumerate((self.stdout, self.stderr)) if not each[1].closed]
        readers = [threading.Thread(target=read, args=each, daemon=True) for each in open_streams]
        for reader in readers:
            reader.start()
        if not self.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.write(input or "")
                self.stdin.flush()
            with contextlib.suppress(BrokenPipeError):
                self.stdin.close()
        for reader in readers:
            reader.join(None if end is None else max(0.0, end - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        for _, stream in open_streams:
            stream.close()
        self.wait(None if end is None else max(0.0, end - time.monotonic()))
        return said[0], said[1]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _start_nursery(name: str) -> subprocess.Popen[bytes] | None:
    """Start the process that forks, unless one listens under this name."""
    own = ("GPUTOP", "PYTHONPATH", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            listener.bind(name)
        except OSError:
            return None
        listener.listen()
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(listener.fileno()), str(Path(__file__).parent)],
            stdin=subprocess.DEVNULL,
            env={**environment, "PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1"},  # it would have a thread already
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )


class Nursery:
    """A connection to the process that forks, which the first test process starts, and which ends with the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A name without a file: of several processes, one binds it, and it is free again once nobody listens.
        name = f"\0gputop-nursery-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
        while True:
            started = _start_nursery(name)
            self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with contextlib.suppress(ConnectionError):
                self._control.connect(name)
                if self._control.recv(1):
                    break
            self._control.close()  # it ended as we came: the last test process before us has left it
            assert started is None or started.wait() == 0, "the nursery does not start"
        atexit.register(self.close)

    def is_alive(self) -> bool:
        """Return whether it can fork."""
        try:
            return bool(self._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Leave it; without other test processes, it ends."""
        self._control.close()

    def start(
        self, words: Sequence[str], directory: Path, environment: Mapping[str, str], output: IO[bytes] | None = None
    ) -> Training:
        """Start ``python SCRIPT``, or the same under ``gputop run``, as ``fits`` allows; its streams are pipes.

        With ``output`` it reads nothing, and writes both streams there.
        """
        own, arguments = _split(words)
        given = _tracked(own, environment)
        return self._fork(words, arguments, directory, given, output)

    def start_ranks(self, words: Sequence[str], directory: Path, environment: Mapping[str, str]) -> list[Training]:
        """Start the ranks that a command of torchrun's would start, as ``fits_ranks`` allows; rank 0 has the store."""
        own, arguments = _split(words)
        given = _tracked(own, environment)
        given.pop("GPUTOP_END_LINE", None)  # torchrun itself has taken it
        number, script = 2, arguments[len(_TORCHRUN) :]
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        shared = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(number),
            "LOCAL_WORLD_SIZE": str(number),
            "GROUP_RANK": "0",
            "GROUP_WORLD_SIZE": "1",
            "ROLE_NAME": "default",
            "TORCHELASTIC_RUN_ID": str(uuid.uuid4()),
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
        }
        return [
            self._fork(words, script, directory, {**given, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(number)
        ]

    def _fork(
        self,
        words: Sequence[str],
        arguments: Sequence[str],
        directory: Path,
        given: Mapping[str, str],
        output: IO[bytes] | None = None,
    ) -> Training:
        our_status, child_status = os.pipe()
        if output is None:
            (child_in, our_in), (our_out, child_out), (our_err, child_err) = (os.pipe() for _ in range(3))
            streams = [os.fdopen(number, mode) for number, mode in ((our_in, "w"), (our_out, "r"), (our_err, "r"))]
        else:
            child_in, child_out, child_err = os.open(os.devnull, os.O_RDONLY), *(os.dup(output.fileno()) for _ in range(2))
            streams = []
        theirs = (child_in, child_out, child_err, child_status)
        asked = {"arguments": list(arguments), "directory": str(directory), "environment": dict(given)}
        try:
            with self._lock:
                socket.send_fds(self._control, [json.dumps(asked).encode()], theirs)
                pid = int(self._control.recv(32))
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return Training(words, pid, our_status, streams)


_nursery: Nursery | None = None


def nursery() -> Nursery:
    """Return the nursery, which is started at its first use, and again if something ended it."""
    global _nursery
    if _nursery is None or not _nursery.is_alive():
        _nursery = Nursery()
    return _nursery


def fits(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether a command is one that a fork can become: nothing in it is read before the script is."""
    _, arguments = _split(words)
    flags = {name: value for name, value in environment.items() if name.startswith("PYTHON")}
    ours = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    as_ours = all(ours.get(name) == value for name, value in flags.items() if name not in ("PYTHONPATH", "PYTHONUNBUFFERED"))
    return bool(arguments) and arguments[0].endswith(".py") and as_ours


def fits_ranks(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether a command starts two ranks of a script by torchrun, and they can be forks."""
    _, arguments = _split(words)
    size = len(_TORCHRUN)
    return (*arguments[:size],) == _TORCHRUN and fits((sys.executable, *arguments[size:]), environment)


def is_warm(test: pytest.Item) -> bool:
    """Return whether the scripts of a test may be forks."""
    return test.get_closest_marker("warm") is not None and test.get_closest_marker("real_start") is None


def _tracked(options: Sequence[str] | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that ``gputop run`` with these options gives its command; None: it is not run by it."""
    if options is None:
        return dict(environment)
    parsed, _ = parse_run([*options, "--"])
    return {**run_command.environment(environment, parsed.name, parsed.project), **run_command._end_line(environment)}


def _split(words: Sequence[str]) -> tuple[list[str] | None, list[str]]:
    """Return the options of ``gputop run``, None without it; and the script with its arguments, nothing if it is no script."""
    own, command = None, list(words)
    if tuple(command[1:4]) == _RUN:
        own, command = run_command.split(command[4:])
    return own, command[1:] if command[:1] == [sys.executable] else []
