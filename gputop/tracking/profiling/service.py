"""Takes requests for a profile, and answers them: the journal's thread looks for one every 2 s, a thread of its own records.

Before a request, the only cost to the training is a check of one file: no import, no thread, no hook.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gputop.tracking.journal.notice import reason
from gputop.tracking.journal.worker import Worker
from gputop.tracking.profiling import exchange
from gputop.tracking.standing import reporter

POLL_S = 2.0
KEPT_S = 120.0
"""Traces that were not fetched are removed after this time, because they take memory."""
RECOVERS_S = 600.0
"""How long a profile that made a step too long forbids the next one: the machine may have been busy (our choice)."""
EXTRA_STEPS = 2.0
"""What recording one step adds, in steps (benchmarks/profile_cost.py)."""


class ProfileService:
    """Serves the requests to one rank, whose ring is at ``ring``."""

    def __init__(self, ring: Path, is_library: Callable[[str], bool]) -> None:
        self._ring, self._is_library = ring, is_library
        self._path = exchange.request_path(ring)
        self._pid = os.getpid()
        self._due_s = 0.0
        self._worker: Worker | None = None
        self._recording: Any = None
        self._request: exchange.Request | None = None
        self._traces: list[Path] = []
        self._traces_at = 0.0
        self._hooked = False
        self._over_s = 0.0
        """By how much the last recording made a step longer, the most."""
        self._over_at_s = 0.0

    def check(self) -> None:
        """Check for a request if one is due. Returns quickly, never raises."""
        now = time.monotonic()
        if now < self._due_s:
            return
        self._due_s = now + POLL_S
        if self._traces and now - self._traces_at > KEPT_S:
            self._remove_traces()
        try:
            os.stat(self._path, follow_symlinks=False)
        except OSError:
            return
        self._take()

    def end(self) -> None:
        """End a recording in progress and remove the files; called when the run ends."""
        if os.getpid() != self._pid:
            return
        self._stop("the run ended")
        if self._worker is not None:
            self._worker.stop()
        self._remove_files()

    def _take(self) -> None:
        try:
            request = exchange.take_request(self._path)
            if request is None or self._request is not None:
                return
            from gputop.tracking.profiling.obstacles import obstacle, step_s, too_long

            trainer = reporter.trainer()
            usual = step_s(trainer) or 0.0
            why = obstacle(trainer) or too_long(self._over_s, usual, self._over_at_s + RECOVERS_S - time.monotonic())
            if why is not None:
                self._answer(request, "refused", why=why)
                return
            if not request.go:
                self._answer(request, "offer", step_s=usual, expected_s=EXTRA_STEPS * request.steps * usual)
                return
            self._hook()
            self._request = request
            self._worker = Worker(self._record)
            self._worker.start()
        except Exception as error:  # noqa: BLE001 - torch and the interpreter may be in any state: then there is no profile
            self._request = None
            with suppress(Exception):
                self._answer(request, "refused", why=f"The profile failed ({reason(error)}).") if request else None

    def _record(self) -> None:
        request, recording = self._request, None
        try:
            from gputop.tracking.profiling.obstacles import step_s
            from gputop.tracking.profiling.recording import Recording

            trainer = reporter.trainer()
            usual = step_s(trainer)
            if request is None or trainer is None or usual is None:
                return
            recording = self._recording = Recording(trainer, usual, self._is_library)
            self._answer(request, "recording", step_s=usual)
            recording.record(request.steps, self._ring, request.id)
            if recording.over_s:
                self._over_s, self._over_at_s = recording.over_s, time.monotonic()
            if not recording.traces:
                self._answer(request, "refused", why=f"The profile was abandoned: {recording.note}.")
                return
            self._answer(
                request,
                "done",
                step_s=usual,
                longest_s=recording.longest_s,
                extra_s=recording.extra_s,
                note=recording.note,
                traces=recording.traces,
                windows=recording.windows,
                samples=recording.samples,
            )
        except Exception as error:  # noqa: BLE001 - as above
            with suppress(Exception):
                self._answer(request, "refused", why=f"The profile failed ({reason(error)}).") if request else None
        finally:
            if recording is not None:
                self._traces += [self._ring.with_name(name) for name in recording.traces]
                self._traces_at = time.monotonic()
            self._recording = self._request = None
            if self._worker is not None and self._worker.stopping:  # the run ended before this thread did
                self._remove_files()

    def _answer(self, request: exchange.Request, state: str, **more: Any) -> None:
        exchange.put(exchange.answer_path(self._ring), {"id": request.id, "state": state, "pid": os.getpid(), **more})

    def _hook(self) -> None:
        """End a recording before a fork: the child would continue it for no reader."""
        if not self._hooked:
            self._hooked = True
            os.register_at_fork(before=lambda: self._stop("the training forked"))

    def _stop(self, why: str) -> None:
        recording = self._recording
        if recording is not None and os.getpid() == self._pid:
            with suppress(Exception):  # the script continues, whatever goes wrong here
                recording.end_now(why)

    def _remove_files(self) -> None:
        self._remove_traces()
        for path in (self._path, exchange.answer_path(self._ring)):
            with suppress(OSError):
                os.unlink(path)

    def _remove_traces(self) -> None:
        while self._traces:
            with suppress(OSError):  # the viewer that asked has taken it
                os.unlink(self._traces.pop())
