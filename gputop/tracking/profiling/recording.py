"""Records single steps with torch.profiler, from a thread of ours, and measures what that costs the training.

Each step is recorded by itself: torch keeps the interpreter's lock while it collects what was recorded, for as long as two of
three small-operator steps take, so that three steps in one piece would hold up the next one by six. No shapes, no stacks, no
memory; nothing on the training's own thread. Which line of the script was running is sampled beside it.

Where the script starts a profiler of its own, forks, or ends meanwhile, ours ends first.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any

from gputop.tracking.profiling import obstacles, papers
from gputop.tracking.standing.attendant import Trainer
from gputop.tracking.standing.stack import frames_of, where

LOOKS_PER_STEP = 40
LOOK_MIN_S, LOOK_MAX_S = 0.0005, 0.02
SAMPLES_MAX = 2000
START_SHARE = 0.6
"""The profiler starts at this part of a step, before the one that counts: it takes a while, and a step begins with its data."""
LATE_STEPS = 30.0
"""A step that has not ended after so many steps' time is not waited for."""
RECORDED_STEPS = 3.0
"""The same while the profiler runs: it would record a whole evaluation. Less than ``obstacles.LONGEST_STEPS``."""
END_WAIT_S = 2.0
"""How long a fork, another profiler, or the end of the run waits for ours to end."""
KERNELS_FROM_S = 0.2
"""The GPU's kernels are recorded in steps of at least this length: CUPTI starts slowly. Estimated, not measured."""
BYTES_PER_S = 150e6
"""At most so many bytes of trace come of a second in which torch collects: 300 bytes an operation, 2 us each at best."""
TRACE_BYTES_MAX = 64 << 20
SPACE_SHARE = 8
"""A trace takes at most this part of the free memory of its place, which DataLoader workers share."""


class Ended(Exception):  # noqa: N818 - not an error
    """The recording ends before its steps do; the text says why."""


class Recording:
    """One profile of ``steps`` steps. ``record`` runs on our thread; ``end_now`` may be called on any other one."""

    def __init__(self, trainer: Trainer, step_s: float, is_library: Callable[[str], bool]) -> None:
        self._trainer, self._step_s, self._is_library = trainer, step_s, is_library
        self._look_s = min(LOOK_MAX_S, max(LOOK_MIN_S, step_s / LOOKS_PER_STEP))
        self._ended = ""
        """Why others ended it."""
        self._idle = threading.Event()
        """Whether no profiler of ours runs."""
        self._idle.set()
        self._seen: tuple[int, float] | None = None
        self._first: tuple[int, float] | None = None
        self._libraries: dict[str, bool] = {}
        self.longest_s = 0.0
        self.samples: list[tuple[int, str, str]] = []
        """Wall clock in ns, the script's line, its function."""
        self.windows: list[tuple[int, int]] = []
        """Of each recorded step: begin and end, wall clock in ns."""
        self.traces: list[str] = []
        self.note: str | None = None
        """Why fewer steps were recorded than asked for, if so; or what is left out of them."""

    @property
    def extra_s(self) -> float | None:
        """By how much longer the steps took than as many usual ones."""
        if self._first is None or self._seen is None or self._seen[0] <= self._first[0]:
            return None
        return max(0.0, self._seen[1] - self._first[1] - (self._seen[0] - self._first[0]) * self._step_s)

    def end_now(self, why: str) -> None:
        """End the recording, and return once no profiler of ours runs, or after ``END_WAIT_S``."""
        self._ended = self._ended or why
        self._idle.wait(END_WAIT_S)

    def record(self, steps: int, ring: Path, request_id: str) -> None:
        """Record the steps, one by one, until one became too long."""
        with self._making_way():
            try:
                for number in range(steps):
                    self._record_one(papers.trace_path(ring, request_id, number))
                    if self.longest_s > obstacles.LONGEST_STEPS * self._step_s and number + 1 < steps:
                        raise Ended(f"one step took {self.longest_s / self._step_s:.1f} times as long as usual")
            except Ended as end:
                self.note = str(end)

    def _record_one(self, trace: Path) -> None:
        self._next_step()
        time.sleep(START_SHARE * self._step_s)
        profile = self._profile()
        if obstacles.compiles(self._trainer.trains_on()):
            raise Ended("torch.compile began to work")
        collecting_s = 0.0
        self._idle.clear()
        try:
            if self._ended:
                raise Ended(self._ended)
            profile.start()
            try:
                begin = self._next_step(recording=True)
                end = self._next_step(recording=True, sampling=True)
            finally:
                started = time.perf_counter()
                profile.profiler.use_device = None  # or it waits for the GPU, which a graph's capture does not survive
                profile.stop()
                collecting_s = time.perf_counter() - started
        finally:
            self._idle.set()
        for _ in range(2):  # so that collecting and writing do not hold up the same step
            self._next_step()
        self._save(profile, trace, collecting_s)
        offset = time.time_ns() - time.perf_counter_ns()
        self.windows.append((int(begin * 1e9) + offset, int(end * 1e9) + offset))
        self.traces.append(trace.name)
        self._next_step()

    def _profile(self) -> Any:
        torch_profiler = sys.modules["torch.profiler"]
        config: Any = sys.modules["torch._C._profiler"]._ExperimentalConfig
        try:
            chosen = config(profile_all_threads=True, trace_only=True)
        except TypeError:  # an older torch: it builds what only its own tables need
            chosen = config(profile_all_threads=True)
        activities = [torch_profiler.ProfilerActivity.CPU]
        cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            if self._step_s >= KERNELS_FROM_S:
                activities.append(torch_profiler.ProfilerActivity.CUDA)
            else:
                self.note = f"kernels are recorded in steps of {KERNELS_FROM_S:g} s and more"
        return torch_profiler.profile(activities=activities, experimental_config=chosen)

    def _save(self, profile: Any, trace: Path, collecting_s: float) -> None:
        found = os.statvfs(trace.parent)
        room = min(TRACE_BYTES_MAX, found.f_bavail * found.f_frsize // SPACE_SHARE)
        if collecting_s * BYTES_PER_S > room:
            raise Ended("the trace could be larger than the memory that is free for it")
        try:
            profile.profiler.kineto_results.save(str(trace))
            os.chmod(trace, 0o600)
        except BaseException:
            with suppress(OSError):
                os.unlink(trace)
            raise

    def _next_step(self, recording: bool = False, sampling: bool = False) -> float:
        """Wait until a step ends; return when that was, by ``perf_counter``."""
        _, before = self._look()
        deadline = time.perf_counter() + (RECORDED_STEPS if recording else LATE_STEPS) * self._step_s
        while True:
            if self._ended:
                raise Ended(self._ended)
            if time.perf_counter() > deadline:
                raise Ended(
                    f"a step had not ended after {RECORDED_STEPS:g} times its usual length"
                    if recording
                    else "no step came for a while"
                )
            if sampling and len(self.samples) < SAMPLES_MAX:
                self._sample()
            time.sleep(self._look_s)
            _, marked = self._look()
            if marked != before:
                return marked

    def _look(self) -> tuple[int, float]:
        """Return the last step and when it ended, and note how long it took."""
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

    @contextmanager
    def _making_way(self) -> Iterator[None]:
        """Let any other profiler of torch's end ours before it starts: two at a time raise in whoever comes second."""
        own: Any = sys.modules["torch.autograd.profiler"]
        ours, originals = get_ident(), []

        def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
            def first_ours(*args: Any, **kwargs: Any) -> Any:
                if get_ident() != ours:
                    self.end_now("the training started a profiler itself")
                return original(*args, **kwargs)

            return first_ours

        for kind in (own.profile, getattr(own, "emit_nvtx", None), getattr(own, "emit_itt", None)):
            for name in ("_prepare_trace", "_start_trace", "__enter__"):
                original = None if kind is None else vars(kind).get(name)
                if original is not None:
                    originals.append((kind, name, original, wrapped(original)))
                    setattr(kind, name, originals[-1][3])
        try:
            yield
        finally:
            for kind, name, original, replacement in originals:
                if vars(kind).get(name) is replacement:
                    setattr(kind, name, original)
