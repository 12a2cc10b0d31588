"""Commands of other programs, such as ``squeue`` and ``kubectl``: asked once, within a deadline.

Their output is bounded and untrusted. Imports the standard library and the ground floor only.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from gputop.errors import GputopError, UsageError
from gputop.terminal_text import strip_controls

PRINTED_MOST_BYTES = 16 << 20
"""A cluster's whole queue is a few MiB."""
_PIECE_BYTES = 1 << 16
_END_S = 1.0
"""How long a killed command may take to end."""


class NoAnswerError(GputopError):
    """A command did not end in time; what it did is not known."""


def printed(
    words: Sequence[str], what: str, within_s: float, *, sent: bytes = b"", environment: Mapping[str, str] | None = None
) -> list[str]:
    """Return the lines that a command prints, without control characters and empty lines; ``sent`` is its standard input.

    ``what`` is what the command belongs to, for the hint: "Slurm's commands".

    Raises:
        UsageError: there is no such command here.
        GputopError: it cannot be started, fails, or does not end within ``within_s`` seconds; or it prints too much.
    """
    name = words[0]
    if shutil.which(name) is None:
        raise UsageError(f"There is no command {name!r} here.", f"Run gputop where {what} can be used.")
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE if sent else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            # Sites wrap such commands in scripts, whose child processes must not outlive the deadline.
            start_new_session=True,
        )
    except OSError as error:
        raise GputopError(f"{name} cannot be started: {error.strerror}.", "Check the command.") from error
    try:
        found = _collected(process, sent, time.monotonic() + within_s)
    finally:
        _end(process)
    if found is None:
        raise NoAnswerError(f"{name} does not answer.", "Try it by itself.")
    out, err = found
    if len(out) > PRINTED_MOST_BYTES:
        raise GputopError(f"{name} prints more than {PRINTED_MOST_BYTES >> 20} MiB.", "Try it by itself.")
    if process.returncode != 0:
        said = [line for line in _lines(err) if line.strip()]
        last = said[-1].strip().removeprefix(f"{name}: ").removeprefix("error: ") if said else ""
        why = last.rstrip(".?!") or f"exit code {process.returncode}"
        raise GputopError(f"{name} failed: {why}.", f"Try it by itself: {' '.join(words)}")
    return [line for line in _lines(out) if line.strip()]


def _collected(process: subprocess.Popen[bytes], sent: bytes, until: float) -> tuple[bytes, bytes] | None:
    """Return standard output and error of a command that ended in time; None of one that did not."""
    assert process.stdout is not None
    assert process.stderr is not None
    found = {process.stdout: b"", process.stderr: b""}
    with selectors.DefaultSelector() as selector:
        for pipe in found:
            selector.register(pipe, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while len(selector.get_map()) and len(found[process.stdout]) <= PRINTED_MOST_BYTES:
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            for key, _ in selector.select(left_s):
                if key.fileobj is process.stdin:
                    with contextlib.suppress(BlockingIOError):
                        try:
                            sent = sent[os.write(key.fd, sent[:_PIECE_BYTES]) :]
                        except BrokenPipeError:
                            sent = b""
                    if not sent:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                piece = os.read(key.fd, _PIECE_BYTES)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    found[process.stderr] = (found[process.stderr] + piece)[-_PIECE_BYTES:]
                else:
                    found[process.stdout] += piece
    if len(found[process.stdout]) <= PRINTED_MOST_BYTES:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
    return found[process.stdout], found[process.stderr]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # not waited for yet, so that the number of its group is still its own
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _lines(data: bytes) -> list[str]:
    return [strip_controls(line) for line in data.decode(errors="replace").splitlines()]
