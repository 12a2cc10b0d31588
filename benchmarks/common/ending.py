"""Ends a benchmark on a signal as on Ctrl-C, and everything that it has started with it.

As the first process of a namespace, Python ignores SIGTERM, and in the background of a shell SIGINT: the programs that are
measured would run on.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
ENDS_WITHIN_S = 10.0


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Leave the block on one of ``SIGNALS``, with 128 and its number as exit code, and kill at its end what still runs."""
    for number in SIGNALS:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        left = psutil.Process().children(recursive=True)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, ENDS_WITHIN_S)


def _leave(number: int, frame: object) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # a second one must not keep the first from cleaning up
    raise SystemExit(128 + number)
