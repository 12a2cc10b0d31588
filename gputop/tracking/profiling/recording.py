"""Records single steps with torch's profiler, and measures what that costs the training.

Each step is recorded by itself: the training waits while torch collects what was recorded. With small operators, that takes
about as long as two steps, so recording three steps at once would delay the next one by six. No shapes, no stacks, no memory.
Only starting and stopping happens on the training's own thread (``one_step``); the rest, and the sampling of which line of the
script is running, on gputop's own thread.

The cost of starting and stopping is measured first, by recording nothing: if the profile could not keep its limit, it is given
up then. If the script starts its own profiler, forks, or ends meanwhile, gputop's ends first.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from gputop.tracking.journal import size_limit
from gputop.tracking.profiling import exchange, obstacles
from gputop.tracking.profiling.one_step import OneStep
from gputop.tracking.profiling.script_profilers import watch_script_profilers
from gputop.tracking.standing.reporter import Trainer
from gputop.tracking.standing.stack import frames_of, where

POLLS_PER_STEP = 40
POLL_MIN_S, POLL_MAX_S = 0.0005, 0.02
SAMPLES_MAX = 2000
LATE_STEPS = 30.0
"""A step that has not ended after this many steps' time is not waited for."""
RECORDED_STEPS = 2.5
"""The same while the profiler runs: it would record a whole evaluation. Half of ``obstacles.LONGEST_STEPS``, because torch then
collects for up to as long as it has recorded (torch 2.13, steps of 100 and 300 small layers; of operators that C++ calls in a
loop, up to three times as long)."""
END_WAIT_S = 2.0
"""How long a fork, another profiler, or the end of the run waits for gputop's to end."""
KERNELS_FROM_S = 0.025
"""The GPU's kernels are recorded in steps of at least this length. On an H100, with steps of 27 to 45 ms, CUPTI's first start
included, no step took more than three times as long as usual, and three recorded ones cost 7 steps' time (15 at first)."""
BYTES_PER_S = 150e6
"""The most bytes of trace that a second of torch's collecting produces: 300 bytes an operation, 2 us each at best."""
TRACE_BYTES_MAX = 64 << 20
SPACE_SHARE = 8
"""A trace takes at most this fraction of the free memory where it is written, which DataLoader workers share."""


class Ended(Exception):  # noqa: N818 - not an error
    """The recording ends before its steps do; the text says why."""


class Recording:
    """One profile of ``steps`` steps. ``record`` runs on gputop's thread; ``end_now`` may be called on any other one."""

    def __init__(self, trainer: Trainer, step_s: float, is_library: Callable[[str], bool]) -> None:
        self._trainer, self._step_s, self._is_library = trainer, step_s, is_library
        self._poll_s = min(POLL_MAX_S, max(POLL_MIN_S, step_s / POLLS_PER_STEP))
        self._ended = ""
        """Why others ended it."""
        self._one: OneStep | None = None
        """The step that is or was recorded last."""
        self._open: set[int] = set()
        """The ids of the ``record_function``s that began inside a recorded step, and have not ended."""
        self._seen: tuple[int, float] | None = None
        self._first: tuple[int, float] | None = None
        self._libraries: dict[str, bool] = {}
        self.longest_s = 0.0
        self.over_s = 0.0
        """By how much recording made a step longer, the most."""
        self.samples: list[tuple[int, str, str]] = []
        """Wall clock in ns, the script's line, its function."""
        self.windows: list[tuple[int, int]] = []
        """Begin and end of each recorded step, wall clock in ns."""
        self.traces: list[str] = []
        self.note: str | None = None
        """Why fewer steps were recorded than requested, if so; or what is missing in them."""

    @property
    def extra_s(self) -> float | None:
        """How much longer the steps took than the same number of usual ones."""
        if self._first is None or self._seen is None or self._seen[0] <= self._first[0]:
            return None
        return max(0.0, self._seen[1] - self._first[1] - (self._seen[0] - self._first[0]) * self._step_s)

    def end_now(self, why: str) -> None:
        """End the recording, and return once no profiler of gputop is running, or after ``END_WAIT_S``."""
        self._ended = self._ended or why
        one = self._one
        if one is None or one.give_up():
            return
        one.stop()
        if not one.stopped.is_set():  # it runs on another thread, which will notice soon
            one.overdue = True
            one.stopped.wait(END_WAIT_S)

    def record(self, steps: int, ring: Path, request_id: str) -> None:
        """Record the steps, one by one, until one became too long."""
        with self._watching_script():
            try:
                self._record_nothing()
                for number in range(steps):
                    self._record_one(exchange.trace_path(ring, request_id, number))
                    longest_s = max(self.longest_s, self._step_s + self.over_s)
                    if longest_s > obstacles.LONGEST_STEPS * self._step_s:
                        raise Ended(f"one step took {longest_s / self._step_s:.1f} times as long as usual")
            except Ended as end:
                self.note = str(end)

    def _record_nothing(self) -> None:
        """Start and stop the profiler, a second time if the first one, which loads libraries, took long.

        Raises:
            Ended: what is left of the limit is not enough for a step and its collecting.
        """
        left_s = (obstacles.LONGEST_STEPS - RECORDED_STEPS) * self._step_s
        for _ in range(2):
            one, _ = self._run(empty=True)
            self._next_step()
            if one.took_s <= left_s:
                return
            if one.took_s > obstacles.LONGEST_STEPS * self._step_s:
                break
        raise Ended(f"starting and stopping torch's profiler took {one.took_s / self._step_s:.1f} times as long as a step")

    def _record_one(self, trace: Path) -> None:
        one, profiler = self._run()
        if not one.is_whole:
            raise Ended(f"a step had not ended after {RECORDED_STEPS:g} times its usual length")
        self.over_s = max(self.over_s, one.took_s - self._step_s)
        for _ in range(2):  # so that collecting and writing do not hold up the same step
            self._next_step()
        self._save(profiler, trace, one.collecting_s)
        offset = time.time_ns() - time.perf_counter_ns()
        begin, end = one.begin or 0.0, one.end or 0.0
        self.windows.append((int(begin * 1e9) + offset, int(end * 1e9) + offset))
        self.traces.append(trace.name)
        self._next_step()

    def _run(self, *, empty: bool = False) -> tuple[OneStep, Any]:
        """Record the next step, or nothing, and return it and its profiler."""
        self._next_step()
        if obstacles.compiles(self._trainer.trains_on()):
            raise Ended("torch.compile began to work")
        if self._open:
            raise Ended("a record_function of the training spans several steps")
        profiler = self._profiler()
        one = self._one = OneStep(self._trainer, profiler, empty=empty)
        self._trainer.between_steps(one.between_steps)
        try:
            self._wait_for(one)
        finally:
            self._trainer.between_steps(None)
        self._note_last_step()
        if one.failure is not None:
            raise Ended(f"torch's profiler failed: {one.failure}") from one.failure
        if self._ended:
            raise Ended(self._ended)
        if one.begin is None or one.end is None:
            raise Ended("no step came for a while")
        return one, profiler

    def _wait_for(self, one: OneStep) -> None:
        """Sample the step, and return once its profiler has stopped. Only the training's thread can stop it."""
        late = time.perf_counter() + LATE_STEPS * self._step_s
        while not one.stopped.wait(POLL_MAX_S if one.overdue else self._poll_s):
            if one.begin is None:
                if (self._ended or time.perf_counter() > late) and one.give_up():
                    return
                continue
            self._note_last_step()
            if len(self.samples) < SAMPLES_MAX:
                self._sample()
            one.overdue = bool(self._ended) or time.perf_counter() > one.begin + RECORDED_STEPS * self._step_s

    def _profiler(self) -> Any:
        config: Any = sys.modules["torch._C._profiler"]._ExperimentalConfig
        try:
            chosen = config(trace_only=True)
        except TypeError:  # an older torch: it builds what only its own tables need
            chosen = config()
        device = None
        cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            if self._step_s >= KERNELS_FROM_S:
                device = "cuda"
            else:
                self.note = f"kernels are recorded in steps of {KERNELS_FROM_S:g} s and more"
        own: Any = sys.modules["torch.autograd.profiler"]
        return own.profile(use_kineto=True, use_cpu=True, use_device=device, experimental_config=chosen)

    def _save(self, profiler: Any, trace: Path, collecting_s: float) -> None:
        found = os.statvfs(trace.parent)
        room = min(TRACE_BYTES_MAX, found.f_bavail * found.f_frsize // SPACE_SHARE, size_limit.largest())
        if collecting_s * BYTES_PER_S > room:
            raise Ended("the trace could be larger than the memory that is free for it, or than a file may be (ulimit -f)")
        try:
            profiler.kineto_results.save(str(trace))
            os.chmod(trace, 0o600)
        except BaseException:
            with suppress(OSError):
                os.unlink(trace)
            raise

    def _next_step(self) -> None:
        """Wait until a step ends."""
        before = self._note_last_step()
        deadline = time.perf_counter() + LATE_STEPS * self._step_s
        while self._note_last_step() == before:
            if self._ended:
                raise Ended(self._ended)
            if time.perf_counter() > deadline:
                raise Ended("no step came for a while")
            time.sleep(self._poll_s)

    def _note_last_step(self) -> tuple[int, float]:
        """Return the last step and when it ended, by ``perf_counter``, and note how long it took."""
        seen = self._trainer.last_step()
        while seen != (again := self._trainer.last_step()):  # the two are written one after the other
            seen = again
        step, marked = seen
        if step is None or marked is None:
            raise Ended("the run ended")
        if self._seen is None:
            self._first = step, marked
        elif step > self._seen[0]:
            took = marked - self._seen[1] - (step - self._seen[0] - 1) * self._step_s
            self.longest_s = max(self.longest_s, took)
        self._seen = step, marked
        return step, marked

    def _sample(self) -> None:
        frame = sys._current_frames().get(self._trainer.trains_on())
        found = where(frames_of(frame), self._known)
        del frame  # it would keep the script's objects alive
        if found.line is not None and found.function is not None:
            self.samples.append((time.time_ns(), found.line, found.function))

    def _known(self, path: str) -> bool:
        known = self._libraries.get(path)
        if known is None:
            known = self._libraries[path] = self._is_library(path)
        return known

    def _watching_script(self) -> AbstractContextManager[None]:
        return watch_script_profilers(self._other_begins, self._scope_begins, self._scope_ends)

    def _other_begins(self, profiler: Any) -> None:
        if self._one is None or not self._one.owns(profiler):
            self.end_now("the training started a profiler itself")

    def _scope_begins(self, scope: Any) -> None:
        if self._one is not None and self._one.runs_here():
            self._open.add(id(scope))

    def _scope_ends(self, scope: Any) -> None:
        self._open.discard(id(scope))
