"""Looks at an untracked training: what its code holds, and whether its model is called, and averaged, through a wrapper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gputop.frameworks import EXCHANGE_GRADIENTS
from gputop.sources.python_stacks.holdings import Updated
from gputop.sources.python_stacks.reader import StackReader
from gputop.whereabouts.activities import is_library
from gputop.whereabouts.records import BACKWARD_MIN, FORWARD_MIN, Activity, Call, Holdings

LOOK_S = 20.0
"""How often variables are looked at: it takes 2 ms for a model of 6 layers, 22 ms for one of 300, and a look at the
stack 0.3 ms (``benchmarks/outside.py``)."""
FAILED_MAX = 5
"""How often a failed look at variables is retried with the next look at the stack, which often changes while it is read (our
choice)."""
_WRAPPERS = re.compile(
    r"/torch/nn/parallel/|/torch/distributed/(fsdp|_composable|pipelining|tensor)/|/torch/_dynamo/"
    rf"|/({'|'.join(EXCHANGE_GRADIENTS)})/"
)
_TRAINS: tuple[Activity, ...] = ("backward", "optimizer")


class Survey:
    """What one process holds, as last seen. ``reader`` reads its stacks."""

    def __init__(self, reader: StackReader) -> None:
        self._reader = reader
        self._held: Holdings | None = None
        self._due_s = 0.0
        self._failed = 0
        self._forward = self._backward = 0
        self._is_wrapped = self._exchanges = False
        self._first: Updated | None = None
        self._updated: tuple[int, int] | None = None

    def look(self, calls: Sequence[Call], activity: Activity, now_s: float) -> Holdings | None:
        """Return what it holds. ``calls``: its stack now, which shows this ``activity``.

        Variables are looked at while a step computes: an evaluation may hold other loaders, and changes the mode of models.

        Raises:
            OSError: the process is gone, or cannot be read any more.
        """
        # What comes before the first backward pass may be an evaluation.
        if activity == "forward" and self._held is not None and not self._is_wrapped:
            self._forward += 1
            self._is_wrapped = any(_WRAPPERS.search(call.path) for call in calls)
        if activity in _TRAINS and now_s >= self._due_s:
            self._held = self._reader.read_holdings(_is_own) or self._held
            self._failed += self._held is None
            self._due_s = now_s + (LOOK_S if self._held is not None or self._failed > FAILED_MAX else 0.0)
        if activity == "backward" and not self._exchanges:
            exchanges = self._reader.read_exchanges()
            self._backward += exchanges is not None
            self._exchanges = exchanges is True
        if activity == "backward":  # within a step of the optimizer, only some tensors of the first one have their state
            self._count()
        if self._held is None:
            return None
        return replace(
            self._held,
            calls_wrapper=self._is_wrapped if self._is_wrapped or self._forward >= FORWARD_MIN else None,
            exchanges=self._exchanges if self._exchanges or self._backward >= BACKWARD_MIN else None,
            updated=self._updated,
        )

    def _count(self) -> None:
        """Note how many tensors the optimizer updates, and had updated when it was first seen, with the same DDP around."""
        now = self._reader.read_updated()
        if now is not None and self._updated is not None and now.tensors > self._updated[1]:
            # It may have been wrapped again since its variables were looked at.
            now = self._reader.read_updated() if self._reader.read_holdings(_is_own) is not None else None
        if now is None:
            return
        if self._first is None or self._first.parts != now.parts:
            self._first = now
        self._updated = self._first.tensors, now.tensors


def _is_own(path: str) -> bool:
    return not is_library(path)
