"""Says where this process is, from its import of torch until it has a run: for users who ask why no first step comes.

The page of a ring, in memory without a name: no list counts this process as a rank, and the memory ends with it, however that
ends. Whoever asks finds it among the files that the process has open (``where/before_steps.py``). A process that ends soon, a
loader's worker, a forked child, what it is forked from, a launcher, such as torchrun, and torch's other programs have none.
The training's own thread does nothing but start and end ours.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gputop.places import state_dir
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.journal.worker import Worker
from gputop.tracking.journal.writing.own_file import OwnFile
from gputop.tracking.standing.reporter import Reporter

NAME = "gputop-before-steps"
"""The name of the memory, as /proc shows it."""
AFTER_S = 2.0
"""A process that ends sooner than this after its import of torch has nothing to find."""
POLL_S = 0.5
END_S = 0.2
_LAUNCHERS = ("torch.distributed.launcher.api", "deepspeed.launcher.runner", "deepspeed.launcher.launch")
"""Modules that a process imports, or runs, to start ranks: torchrun and ``accelerate launch`` import the first one."""
_SEALS = 1 | 2 | 4
"""F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW of Linux (fcntl.h): a Python that was built on an older system lacks the names."""


class _Early:
    """The memory that says where this process is, and the thread that keeps it up to date."""

    def __init__(self, is_library: Callable[[str], bool]) -> None:
        self._is_library = is_library
        self.worker = Worker(self._run)
        self._due_s = time.monotonic() + AFTER_S
        self._memory: memoryview[int] | None = None
        self._file: OwnFile | None = None
        self._reporter: Reporter | None = None

    def end(self) -> None:
        """Give everything back: there is a run now, or the process ends."""
        self.worker.stop()
        if self.worker.join(END_S):  # else the thread does, once it can
            self._give_back()

    def forget(self) -> None:
        """Give back what a forked child has inherited; with the last descriptor of it the memory is gone."""
        self.worker.stopping = True  # the thread is the parent's
        if self._reporter is not None:
            self._reporter.forget()
        self._close()

    def _give_back(self) -> None:
        if self._reporter is not None:
            self._reporter.end()
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _run(self) -> None:
        try:
            self._attend()
        except Exception:  # noqa: BLE001 - the script and the system may be in any state: then there is nothing to find
            self.worker.stopping = True
        if self.worker.stopping:
            with suppress(Exception):  # the interpreter may be shutting down
                self._give_back()

    def _attend(self) -> None:
        while not self.worker.has_to_leave():
            self.worker.sleep(POLL_S if self._file is not None else max(0.0, self._due_s - time.monotonic()))
            if time.monotonic() < self._due_s or self.worker.stopping:
                continue
            if _launches():
                self.worker.stopping = True
                return
            if self._file is None:
                if identity.is_worker():
                    self.worker.stopping = True
                    return
                self._open()
            if self._file is not None and self._memory is not None and self._reporter is not None:
                self._reporter.write_if_due(self._memory, self._file.modified_ns())

    def _open(self) -> None:
        """Make the memory, of a size that nobody can change: so writing to it can end nothing.

        Raises:
            OSError: the system has no such memory.
        """
        where = identity.place()
        who = identity.identify(where, identity.shared_id(where) or f"process-{os.getpid()}")
        file = self._file = OwnFile(os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), Path(f"/{NAME}"))
        self._memory = file.mapped(form.HEADER_BYTES, _SEALS)
        page = form.pack_header(form.ARCHIVE, 0, who, str(state_dir().absolute()))
        self._memory[: len(page)] = bytes(page)
        self._reporter = Reporter(self._is_library)


def _launches() -> bool:
    """Return whether this process starts ranks and is not one itself. This shows only some time after its import of torch."""
    main = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)
    return (main in _LAUNCHERS or not sys.modules.keys().isdisjoint(_LAUNCHERS)) and "RANK" not in os.environ


_early: _Early | None = None
_hooked = False


def start(torch: Any, is_library: Callable[[str], bool]) -> None:
    """Start to say, after a moment, where this process of a launch is, unless it is one of torch's own programs."""
    global _early, _hooked
    if os.environ.get("GPUTOP_WHERE") == "0" or os.environ.get("GPUTOP_THREAD") == "0":
        return
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    if identity.is_fork_server() or (isinstance(program, str) and program.startswith(os.path.dirname(torch.__file__) + os.sep)):
        return
    _early = _Early(is_library)
    if not _hooked:
        _hooked = True
        atexit.register(end)
        os.register_at_fork(after_in_child=_forget)
    _early.worker.start()


def revive() -> None:
    """Start the thread again where a fork has ended it."""
    if _early is not None:
        _early.worker.start()


def end() -> None:
    """Stop saying where it is: the run that begins does, or the process ends."""
    global _early
    ended, _early = _early, None
    if ended is not None:
        with suppress(Exception):  # the interpreter may be shutting down
            ended.end()


def _forget() -> None:
    global _early
    inherited, _early = _early, None
    if inherited is not None:
        with suppress(Exception):  # the child continues, whatever is wrong here
            inherited.forget()
