"""Tells trainings of one process apart: where each optimizer was made, and what its weights were before it first stepped.

Only a few numbers of three weights are kept, of plain tensors: to read a DTensor may ask other ranks. They are compared where a
script loads weights, and before the first step of an optimizer, never in a step; on a GPU the comparison waits for it.
Weights that are drawn anew in place cannot be told from weights that were changed for any other reason.
"""

from __future__ import annotations

import weakref
from collections.abc import Container
from types import FrameType
from typing import Any, NamedTuple

Place = tuple[str, int, str, int]
"""File and line of the user's code that makes an optimizer, and those of its caller."""
WEIGHTS = 3
NUMBERS = 16
"""So many numbers of so many weights of an optimizer tell whether they are what they were."""


class Origin(NamedTuple):
    """Where an optimizer was made, and when: its number among all events that ``Origins`` counts."""

    place: Place
    at: int


class _Weight(NamedTuple):
    """A weight, and what its first numbers were before the first step on it."""

    weight: weakref.ref[Any]
    first: Any


class Origins:
    """The origins of the optimizers of a process, and of the weights that they step on. Its methods are its only writers."""

    def __init__(self) -> None:
        self._made: weakref.WeakKeyDictionary[Any, Origin] = weakref.WeakKeyDictionary()
        self._events = 0
        self._weights: dict[int, _Weight] = {}
        self._back = False

    def made(self, optimizer: Any, frame: FrameType | None) -> None:
        """Note that the user's line ``frame`` makes an optimizer."""
        if frame is None:
            return
        above = frame.f_back
        caller = ("", 0) if above is None else (above.f_code.co_filename, above.f_lineno)
        self._made[optimizer] = Origin((frame.f_code.co_filename, frame.f_lineno, *caller), self.count())

    def count(self) -> int:
        """Count an event, and return its number."""
        self._events += 1
        return self._events

    def of(self, optimizer: Any) -> Origin | None:
        """Return where and when an optimizer was made; None if that was not seen."""
        return self._made.get(optimizer)

    def before_first_step(self, torch: Any, optimizer: Any) -> None:
        """Look at the weights of an optimizer before its first step: are they what they were before the first one on them?"""
        self._weights = {key: kept for key, kept in self._weights.items() if kept.weight() is not None}
        items = [item for group in optimizer.param_groups for item in group["params"]]
        trained = [item for item in items if item.is_leaf and item.grad is not None]  # asked for it, any other warns
        known = [self._weights[id(item)] for item in trained if id(item) in self._weights]
        if known:
            self._back = self._back or _all_first(torch, known)
            return
        plain = [item for item in trained if _is_plain(torch, item)]
        for item in plain[:: max(1, len(plain) // WEIGHTS)][:WEIGHTS]:
            self._weights[id(item)] = _Weight(weakref.ref(item), _numbers(item).clone())

    def keep(self, weights: Container[int]) -> None:
        """Forget all weights but those with these ids: another training begins."""
        self._weights = {key: kept for key, kept in self._weights.items() if key in weights}

    def before_loading(self) -> list[tuple[_Weight, int, Any]]:
        """Return what is to be compared once weights have been loaded."""
        found = ((kept, kept.weight()) for kept in self._weights.values())
        return [(kept, item._version, _numbers(item).clone()) for kept, item in found if item is not None]

    def after_loading(self, torch: Any, before: list[tuple[_Weight, int, Any]]) -> bool:
        """Return whether the weights, which were trained, are again what they were before the first step on them."""
        loaded = [(kept, now) for kept, version, now in before if getattr(kept.weight(), "_version", version) != version]
        if loaded and _all_first(torch, [kept for kept, _, _ in before]):
            self._back = any(not torch.equal(now, kept.first) for kept, now in loaded)
        return self._back

    def take_back(self) -> bool:
        """Return whether the weights went back to where they began since the last call."""
        back, self._back = self._back, False
        return back


def _is_plain(torch: Any, item: Any) -> bool:
    kinds = torch.Tensor, torch.nn.Parameter
    if type(item) not in kinds or not item.is_contiguous() or not item.numel():
        return False
    return bool(item.is_cpu or (item.is_cuda and not torch.cuda.is_current_stream_capturing()))


def _numbers(item: Any) -> Any:
    return item.detach().view(-1)[:NUMBERS]


def _all_first(torch: Any, known: list[_Weight]) -> bool:
    """Return whether all weights that are still there are what they were first."""
    items = [(kept.weight(), kept.first) for kept in known]
    return all(_is_plain(torch, item) and torch.equal(_numbers(item), first) for item, first in items if item is not None)
