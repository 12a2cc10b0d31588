"""torch's profiler over one step: started and stopped on the thread that trains, between two steps.

Never on another thread, and never over all threads (``profile_all_threads``): when that stops, torch frees what operators
that run on other threads still write to, and the training ends with SIGSEGV (seen with 2.13; pytorch#185741, pytorch#187483).
A profiler of one thread follows a backward to the threads of the autograd engine by itself.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from threading import get_ident
from typing import Any

from gputop.tracking.journal.handlers import let_through
from gputop.tracking.profiling import obstacles
from gputop.tracking.standing.reporter import Trainer


class OneStep:
    """The profiler of one step. ``between_steps`` and ``stop`` run on the training's thread, and raise what its handlers do."""

    def __init__(self, trainer: Trainer, profiler: Any, *, empty: bool = False) -> None:
        """Record the step that begins next.

        Args:
            trainer: reports when a step ends.
            profiler: a ``torch.autograd.profiler.profile`` that has not been started.
            empty: stop where the step begins: this records nothing, and shows how long starting and stopping take.
        """
        self._trainer, self._profiler, self._empty = trainer, profiler, empty
        self._permit = [True]
        """Whoever takes it decides: the training's thread starts the profiler, or gputop's thread prevents that."""
        self._first: int | None = trainer.last_step()[0]
        self._thread = 0
        self.begin: float | None = None
        self.end: float | None = None
        """When the recorded step began and ended, by ``perf_counter``."""
        self.collecting_s = 0.0
        """For how long torch collected, while the training waited."""
        self.took_s = 0.0
        """From before the profiler's start to after its stop: the recorded step, and what the training waited for."""
        self._starts = 0.0
        self.is_whole = False
        """Whether it ended with the step."""
        self.failure: BaseException | None = None
        self.overdue = False
        """Whether to stop at the next chance, be it inside a step: at a fetched batch or a call of the model."""
        self.stopped = threading.Event()
        """No profiler of gputop runs, and none will start."""

    def give_up(self) -> bool:
        """Return whether the profiler had not started, and does not any more. Safe on any thread."""
        try:
            self._permit.pop()
        except IndexError:
            return False
        self.stopped.set()
        return True

    def between_steps(self) -> None:
        """Start or stop if it is time to."""
        step = self._trainer.last_step()[0]
        if not self._thread:
            if step != self._first and get_ident() == self._trainer.trains_on():
                self._start(step)
                if self._empty:
                    self.stop()
        elif step != self._first or self.overdue:
            self.stop(whole=step != self._first)

    def owns(self, profiler: Any) -> bool:
        """Return whether this is its profiler."""
        return profiler is self._profiler

    def runs_here(self) -> bool:
        """Return whether the profiler runs on the calling thread."""
        return self._thread == get_ident() and not self.stopped.is_set()

    def stop(self, whole: bool = False) -> None:
        """Stop if the profiler runs, and on this thread."""
        if not self.runs_here():
            return
        started = time.perf_counter()
        try:
            if obstacles.inside_backward(sys._getframe()):
                return  # torch has put this thread's profiler aside until the backward ends
            self.end, self.is_whole = started, whole
            self._profiler.use_device = None  # or it waits for the GPU, which a graph's capture does not survive
            self._profiler.__exit__(None, None, None)
        except BaseException as error:  # noqa: BLE001 - what is not torch's own is raised again
            self._abandon(error)
        ended = time.perf_counter()
        self.collecting_s, self.took_s = ended - started, ended - self._starts
        self.stopped.set()

    def _start(self, step: int | None) -> None:
        try:
            self._permit.pop()
        except IndexError:
            return
        try:
            if obstacles.inside_backward(sys._getframe()):
                raise RuntimeError("the optimizer steps inside of backward")
            self._first = step
            self._thread = get_ident()
            self._starts = time.perf_counter()
            self._profiler._prepare_trace()
            self._profiler._start_trace()
            self.begin = time.perf_counter()
        except BaseException as error:  # noqa: BLE001 - what is not torch's own is raised again
            self._abandon(error)

    def _abandon(self, error: BaseException) -> None:
        """Leave no profiler running after an error; torch and the interpreter may be in any state. There is no profile then.

        Raises:
            BaseException: the error, if a signal handler of the script raised it, or if it ends the script.
        """
        with suppress(Exception):
            if getattr(sys.modules["torch.autograd.profiler"], "_is_profiler_enabled", True):
                self._profiler.__exit__(None, None, None)
        self.failure = error
        self.stopped.set()
        if not isinstance(error, Exception):
            raise error
        let_through(error)
