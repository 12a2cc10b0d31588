"""Facts about a rank's GPU that need no waiting: memory, and how long the parts of a step took there.

Times are measured by CUDA events around the parts of single steps. They are read a few steps later, once a query shows that the
events have completed, and never while a graph is being captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputop.facts.measured import CudaMemory
from gputop.tracking.stand_in import stands_for

EVERY_STEPS = 10
EVERY_S = 0.5
"""One step in ``EVERY_STEPS`` is timed with events; of short steps, about one in ``EVERY_S``: each must be measured in full,
and so must the one before it, which takes 0.2 ms more (H100)."""
GROWTH = 4
"""The distance of timed steps grows at most this much at once: the host queues its first steps faster than the GPU works."""
PAIRS_MAX = 16
"""At most this many parts of one step are timed."""
_MILLISECONDS = 1e-3

empty_cache_calls = 0
"""Calls of ``torch.cuda.empty_cache`` in this process."""


def next_timed(step: int, usual_s: float, longest: int = EVERY_STEPS << 10) -> int:
    """Return the next step to time, ``longest`` steps later at most, where steps take ``usual_s``.

    Ranks in step with each other time the same ones.
    """
    stride = EVERY_STEPS
    while stride * usual_s < EVERY_S and 2 * stride <= longest:
        stride *= 2
    return (step // stride + 1) * stride


class Timetable:
    """Which steps to time: about one in ``EVERY_S``, by the clock.

    The time of single steps does not say how many there are in a second: the host may queue a hundred of them in the time of
    one, and then wait until the GPU has done them.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._at = 0.0

    def after(self, step: int, now: float) -> int:
        """Return the next step to time; ``step`` is the one that is timed now, at ``now`` seconds of any clock."""
        passed = 0 if self._step is None else step - self._step
        usual_s = (now - self._at) / passed if passed > 0 else EVERY_S
        self._step, self._at = step, now
        return next_timed(step, usual_s, min(GROWTH * max(passed, EVERY_STEPS), EVERY_STEPS << 10))


def listen(torch: Any, no_compile: Callable[..., None]) -> None:
    """Count the calls of ``torch.cuda.empty_cache``; once per process."""
    original = torch.cuda.empty_cache

    @stands_for(original)
    def empty_cache() -> None:
        global empty_cache_calls
        empty_cache_calls += 1
        original()

    no_compile(torch, empty_cache, inside=False)
    # Also where it is defined: pickle looks for it there, for a process that is to call it.
    for home in (torch.cuda, getattr(torch.cuda, "memory", None)):
        if home is not None and home.empty_cache is original:
            home.empty_cache = empty_cache


def memory_fact(cuda: Any) -> dict[str, Any]:
    """Return the fact ``cuda_memory`` of the current device; queries the allocator and the driver without waiting."""
    stats: dict[str, Any] = cuda.memory_stats()
    return CudaMemory.filled(
        allocated_bytes=stats.get("allocated_bytes.all.current"),
        reserved_bytes=stats.get("reserved_bytes.all.current"),
        peak_bytes=stats.get("allocated_bytes.all.peak"),
        total_bytes=int(cuda.get_device_properties(cuda.current_device()).total_memory),
        retries=stats.get("num_alloc_retries"),
        out_of_memory=stats.get("num_ooms"),
        empty_cache_calls=empty_cache_calls,
    )


def memory_values(cuda: Any) -> dict[str, float]:
    """Return the metrics of the current device's memory; an empty dict if CUDA is not in use, or captures a graph."""
    if not cuda.is_initialized() or cuda.is_current_stream_capturing():
        return {}
    stats = cuda.memory_stats()
    return {
        "memory_peak_bytes": float(stats.get("allocated_bytes.all.peak", 0)),
        "memory_allocated_bytes": float(stats.get("allocated_bytes.all.current", 0)),
    }


class Clock:
    """Times a step on the GPU. No method raises: after a first failure the clock stops."""

    def __init__(
        self, event: Callable[[], Any], capturing: Callable[[], bool], failed: Callable[[Exception], None] = lambda error: None
    ) -> None:
        """``event`` creates a timing event; ``capturing`` returns whether a graph is being captured on the current stream.

        ``failed`` receives the error that stops the clock.
        """
        self._event = event
        self._capturing = capturing
        self._failed = failed
        self._free: list[Any] = []
        self._begun: Any = None
        self._pairs: list[tuple[str, Any, Any]] = []
        self._under_way: list[tuple[str, Any, Any]] = []
        self._broken = False
        self.running = False
        """Whether the current step is timed."""

    def begin(self) -> None:
        """Time the step that begins now, unless the previous times are still pending."""
        if not self._under_way:
            self._pairs, self._begun = [], self.start()
            self.running = self._begun is not None

    def start(self) -> Any:
        """Mark the start of a part of the step; return the mark, or None if the part is not timed."""
        if self._broken or len(self._pairs) >= PAIRS_MAX:
            return None
        try:
            if self._capturing():
                return None
            event = self._free.pop() if self._free else self._event()
            event.record()
        except Exception as error:  # noqa: BLE001 - a broken context is for the training to discover
            self._broken = True
            self._failed(error)
            return None
        return event

    def stop(self, name: str, started: Any) -> None:
        """Mark the end of a part of the step."""
        stopped = self.start()
        if stopped is not None:
            self._pairs.append((name, started, stopped))

    def end(self) -> None:
        """Mark the end of the step."""
        self.running = False
        self._pairs = self._pairs[: PAIRS_MAX - 1]
        self.stop("cuda/step_s", self._begun)
        self._under_way = self._pairs if self._pairs and self._pairs[-1][0] == "cuda/step_s" else []
        self._pairs, self._begun = [], None

    def arrived(self) -> dict[str, float]:
        """Return the times of the last timed step by name, once the GPU has completed it; else an empty dict."""
        found: dict[str, float] = {}
        try:
            if self._broken or not self._under_way or self._capturing() or not self._under_way[-1][2].query():
                return {}
            for name, started, stopped in self._under_way:
                found[name] = found.get(name, 0.0) + started.elapsed_time(stopped) * _MILLISECONDS
                self._free += (started, stopped)
        except Exception as error:  # noqa: BLE001 - as above
            self._broken = True
            self._failed(error)
            return {}
        self._under_way = []
        return found


def clock(torch: Any, failed: Callable[[Exception], None]) -> Clock:
    """Return a clock for the current CUDA device."""
    return Clock(lambda: torch.cuda.Event(enable_timing=True), torch.cuda.is_current_stream_capturing, failed)
