"""Counts waits for a GPU and copies to it within a step, in single steps that are a few seconds apart.

``Tensor.item`` and the like are wrapped only during such a step, and restored after it: all other steps cost nothing, and a
script that compiles is never sampled. Calls on CPU tensors are passed on at once. tests/gpu tests this on a GPU.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from time import perf_counter
from types import FrameType
from typing import Any

from gputop.facts.measured import Synchronizations, Transfers
from gputop.tracking.no_compile import no_compile
from gputop.tracking.stand_in import stands_for

WAITS = {
    "item": "item",
    "cpu": "cpu",
    "tolist": "tolist",
    "numpy": "numpy",
    "__bool__": "bool",
    "__float__": "float",
    "__int__": "int",
}
"""Tensor methods that wait for the device."""
COPIES = ("to", "cuda")


class Waits:
    """Counts calls that wait for a device, and copies to one, in the steps for which it is open."""

    def __init__(
        self,
        torch: Any,
        user_frame: Callable[[], FrameType | None],
        on_gpu: Callable[[Any], bool] = lambda tensor: bool(tensor.is_cuda),
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """``failed`` receives the error if a call cannot be inspected."""
        self._torch = torch
        self._tensor = torch.Tensor
        self._thread_is_other: Callable[[], bool] = lambda: False
        self._user_frame = user_frame
        self._on_gpu = on_gpu
        self._failed = failed
        self.is_open = False
        self.steps = 0
        """How many steps were sampled."""
        self.waits = self.copies = self.bytes = self.pageable = self.blocking = 0
        self.seconds = self.waited_s = 0.0
        """How long the copies took, and the waits."""
        self._wait_lines: Counter[str] = Counter()
        self._copy_lines: Counter[str] = Counter()
        self._wrappers = {name: self._waiting(name) for name in WAITS} | {name: self._copying(name) for name in COPIES}

    def open(self, on_other_thread: Callable[[], bool]) -> None:
        """Start counting; ``on_other_thread`` returns whether the caller is on a thread other than the one that trains.

        Methods that other code has put on ``torch.Tensor`` are left alone.
        """
        self._thread_is_other = on_other_thread
        self.is_open = True
        for name, wrapper in self._wrappers.items():
            if name not in self._tensor.__dict__:
                setattr(self._tensor, name, wrapper)

    def close(self, counts: bool) -> None:
        """Stop counting; ``counts``: whether exactly one complete step was sampled."""
        self.is_open = False
        self.steps += counts
        for name, wrapper in self._wrappers.items():
            if self._tensor.__dict__.get(name) is wrapper:
                delattr(self._tensor, name)

    def _line(self) -> str:
        frame = self._user_frame()
        return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else "?"

    def _waiting(self, name: str) -> Any:
        original = getattr(self._tensor, name)

        @stands_for(original)
        def call(tensor: Any, /, *args: Any, **kwargs: Any) -> Any:
            started = None
            try:
                if self.is_open and self._on_gpu(tensor) and not self._thread_is_other():
                    self._waited()
                    started = perf_counter()
            except Exception as error:  # noqa: BLE001 - the script's call must work even if we cannot inspect it
                self.is_open = False
                self._failed(error)
            result = original(tensor, *args, **kwargs)
            if started is not None:
                self.waited_s += perf_counter() - started
            return result

        no_compile(self._torch, call)
        return call

    def _copying(self, name: str) -> Any:
        original = getattr(self._tensor, name)

        @stands_for(original)
        def call(tensor: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self.is_open:
                return original(tensor, *args, **kwargs)
            started = perf_counter()
            result = original(tensor, *args, **kwargs)
            try:
                if result is not tensor and not self._thread_is_other():
                    self._copied(tensor, result, perf_counter() - started, args, kwargs)
            except Exception as error:  # noqa: BLE001 - as above
                self.is_open = False
                self._failed(error)
            return result

        no_compile(self._torch, call)
        return call

    def _waited(self) -> None:
        self.waits += 1
        self._wait_lines[self._line()] += 1

    def _copied(self, tensor: Any, result: Any, seconds: float, args: Any, kwargs: Any) -> None:
        came, went = self._on_gpu(tensor), self._on_gpu(result)
        if came and not went:
            self._waited()
            self.waited_s += seconds
        elif went and not came:
            self.copies += 1
            self.bytes += tensor.numel() * tensor.element_size()
            self.pageable += not tensor.is_pinned()
            # ``to(device, dtype, non_blocking)`` and ``cuda(device, non_blocking)`` also take it by position.
            self.blocking += not (kwargs.get("non_blocking") or any(item is True for item in args[1:3]))
            self.seconds += seconds
            self._copy_lines[self._line()] += 1

    def synchronizations(self) -> dict[str, Any] | None:
        """Return the fact ``synchronizations``; None before the first sampled step."""
        if not self.steps:
            return None
        return Synchronizations.filled(
            per_step=self.waits / self.steps,
            seconds_per_step=self.waited_s / self.steps,
            steps=self.steps,
            where=_most(self._wait_lines),
        )

    def transfers(self) -> dict[str, Any] | None:
        """Return the fact ``transfers``; None before the first sampled step."""
        if not self.steps:
            return None
        return Transfers.filled(
            per_step=self.copies / self.steps,
            bytes_per_step=self.bytes / self.steps,
            pageable_per_step=self.pageable / self.steps,
            blocking_per_step=self.blocking / self.steps,
            seconds_per_step=self.seconds / self.steps,
            where=_most(self._copy_lines),
        )


def _most(lines: Counter[str]) -> str | None:
    return lines.most_common(1)[0][0] if lines else None
