"""Reports where a training is stuck when no step arrives: a thread of gputop samples the stack of the thread that trains.

The stack is the Python stack, from ``sys._current_frames()``, in this process: no ptrace, no signal, no debugger. The thread
keeps no process alive, holds no lock of the training, sleeps while steps arrive, and repeats its report while none does.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from types import FrameType
from typing import Any

from gputop.facts.standing import Stalled
from gputop.tracking.auto.losses.user_code import OWN
from gputop.tracking.auto.training.state import Training
from gputop.tracking.journal.worker import Worker
from gputop.tracking.standing import reporter

STALL_S = 30.0
"""Without a step for this long (``GPUTOP_STALL_S`` overrides it), and for ten median steps, the training is stalled."""
STALL_STEPS = 10
EARLY_SHARE = 1 / 3
EARLY_STEPS = 20
EARLY_PAUSES = 2
EARLY_FROM_STEP = 20
"""An early report of a possible stall comes after a third of ``STALL_S``, if that is also 20 times the longest recent step and
twice the longest pause so far (an evaluation, a checkpoint, a loader's start), and the warm-up is over."""
POLL_S = 2.5
AGAIN_S = 10.0
FRAMES_MAX = 30
_PHASES = {"backward": "backward", "call_module": "forward", "fetch": "data", "save": "checkpoint"}
"""Names of our functions on the training's stack, and the phase that each one indicates."""
_OPTIMIZER = os.path.join("torch", "optim", "optimizer.py")


class Stall:
    """The thread that detects missing steps."""

    def __init__(
        self, steps: Training, evaluating: Callable[[], bool], flush: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        """Watch the steps.

        Args:
            steps: the training.
            evaluating: returns whether a module is being evaluated.
            flush: records the facts that are counted continuously. Called on the thread.
            ended: called on the thread if it ends because the process forks: the next step must start it again.
        """
        self._steps = steps
        self._ended = ended
        self._evaluating = evaluating
        self._flush = flush
        given = os.environ.get("GPUTOP_STALL_S", "")
        try:
            self.floor_s = max(0.1, float(given)) if given else STALL_S
        except ValueError:
            self.floor_s = STALL_S
        self.stalled = False
        self._pause_s = 0.0
        """The longest pause that ended with a step, at the resolution of the polls."""
        self._worker = Worker(self._watch)

    def trains_on(self) -> int:
        """Return Python's id of the thread that trains; 0 while it is unknown."""
        return self._steps.thread

    def last_step(self) -> tuple[int | None, float | None]:
        """Return the last step, and when it ended by ``time.perf_counter``."""
        return self._steps.reached, self._steps.marked

    def recent_steps_s(self) -> list[float]:
        """Return the last times between steps that were measured."""
        return list(self._steps.recent_s)

    def between_steps(self, call: Callable[[], None] | None) -> None:
        """Call this on the training's thread when a step ends, and before a batch or a call of the model. None: stop
        calling."""
        self._steps.call_between_steps(call)

    def start(self) -> None:
        """Start polling, at first or after a fork ended it; skip it if the process cannot start another thread."""
        reporter.introduce(self)
        if self._steps.journal is not None:
            self._steps.journal.revive()
        self._worker.start()

    def end(self) -> bool:
        """Note that a step arrived; return whether a stall was reported before it."""
        stalled, self.stalled = self.stalled, False
        return stalled

    def stop(self) -> None:
        """Stop polling: the run is over."""
        reporter.withdraw(self)
        self._worker.stop()

    def _limit_s(self) -> float:
        times = list(self._steps.recent_s)
        return max(self.floor_s, STALL_STEPS * median(times)) if times else self.floor_s

    def _early_s(self) -> float:
        times = list(self._steps.recent_s)
        if self._steps.reached < EARLY_FROM_STEP or not times:
            return math.inf
        return max(EARLY_SHARE * self.floor_s, EARLY_STEPS * max(times), EARLY_PAUSES * self._pause_s)

    def _watch(self) -> None:
        try:
            said_at, early_at, stood = 0.0, 0.0, (0.0, 0.0)
            ignored, elsewhere = 0, 0.0
            poll_s = min(POLL_S, self.floor_s / 4)
            while not self._leaves_after(poll_s):
                mark, run = self._steps.marked, self._steps.run
                now = time.perf_counter()
                if run is None or mark is None:
                    continue
                if ignored != self._steps.threads.ignored:
                    ignored, elsewhere = self._steps.threads.ignored, now
                last = max(mark, elsewhere)  # a script that trains on threads that are not followed does not stand still
                if last != stood[0] and stood[1] > poll_s:
                    self._pause_s = max(self._pause_s, stood[1] + poll_s)
                stood = last, now - last
                limit = self._limit_s()
                early = now - last < limit
                if early and (early_at > last or now - last < self._early_s()):
                    continue
                if not early and said_at > last and now - said_at < max(AGAIN_S, limit):
                    continue
                said_at, early_at = (said_at, now) if early else (now, early_at)
                self._flush()
                found = self._where(now - last, early)
                if self._steps.marked == mark and not self._worker.stopping:
                    self.stalled = True
                    run.fact("stalled", found)
            if not self._worker.stopping:
                self._ended()
        except Exception:  # noqa: BLE001 - the interpreter is shutting down, or has changed: stay silent
            self._worker.stop()

    def _leaves_after(self, seconds: float) -> bool:
        self._worker.sleep(seconds)
        return self._worker.has_to_leave()

    def _where(self, since_s: float, early: bool) -> dict[str, Any]:
        frame = sys._current_frames().get(self._steps.thread)
        wall = time.time()
        return Stalled.filled(
            since=wall - since_s,
            step=self._steps.reached,
            phase=self.phase_of(frame),
            stack=stack_of(frame),
            at=wall,
            **({"early": True} if early else {}),
        )

    def phase_of(self, frame: FrameType | None) -> str:
        """Return what the training is doing, from its stack: one of the phases of the fact ``stalled``."""
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(OWN) and code.co_name in _PHASES:
                phase = _PHASES[code.co_name]
                return "evaluation" if phase == "forward" and self._evaluating() else phase
            if code.co_filename.endswith(_OPTIMIZER):
                return "optimizer"
            frame = frame.f_back
        return "optimizer" if self._steps.stepping else "other"


def stack_of(frame: FrameType | None) -> list[str]:
    """Format a stack as lines of "file.py:12 function", innermost first, without gputop's own frames."""
    found: list[str] = []
    while frame is not None and len(found) < FRAMES_MAX:
        code = frame.f_code
        if not code.co_filename.startswith(OWN):
            found.append(f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return found
