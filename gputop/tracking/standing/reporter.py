"""Reports where this rank is: every 2 s, and at once on request. Runs on the journal's thread and never raises.

Reads one stack and torch's counts (``counters``): no trace function, no signal, nothing on the training's own thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from gputop.facts.standing import Standing
from gputop.tracking.standing import page
from gputop.tracking.standing.counters import Counters
from gputop.tracking.standing.last_words import LastWords
from gputop.tracking.standing.stack import Where, frames_of, where

EVERY_S = 2.0
"""How often a rank says where it is without being asked."""
TEXT_CHARACTERS = 80
"""Longer texts on the page are shortened."""


class Trainer(Protocol):
    """What automatic tracking knows of the thread that trains."""

    def trains_on(self) -> int:
        """Return Python's id of the thread; 0 while it is unknown."""

    def last_step(self) -> tuple[int | None, float | None]:
        """Return the last step, and when it ended by ``time.perf_counter``."""

    def recent_steps_s(self) -> list[float]:
        """Return the last times between steps that were measured."""

    def phase_of(self, frame: FrameType | None) -> str:
        """Return what the training is doing, from its stack."""

    def between_steps(self, call: Callable[[], None] | None) -> None:
        """Call this on the training's thread when a step ends, and before a batch or a call of the model; None: no more.

        It must never raise. Safe on any thread.
        """


_trainer: Trainer | None = None


def introduce(trainer: Trainer) -> None:
    """Let automatic tracking supply phase, step and thread from now on."""
    global _trainer
    _trainer = trainer


def withdraw(trainer: Trainer) -> None:
    """No longer ask ``trainer``: its run is over."""
    global _trainer
    if _trainer is trainer:
        _trainer = None


def trainer() -> Trainer | None:
    """Return automatic tracking, once it has seen a step."""
    return _trainer


class Reporter:
    """Keeps the page of one ring up to date."""

    def __init__(self, is_library: Callable[[str], bool]) -> None:
        self._is_library = is_library
        self._library: dict[str, bool] = {}
        self._counters = Counters()
        self._words = LastWords()
        self._pid = os.getpid()
        self._answered_ns = -1
        self._due_s = 0.0
        self._begun = 0
        """The last count of collectives that was read."""
        self._place: tuple[Any, ...] = ()
        self._since_s = 0.0
        self._off = os.environ.get("GPUTOP_WHERE") == "0"
        self._prepared = False

    def write_if_due(self, ring: memoryview[int], asked_ns: int) -> None:
        """Write the page if it is due, or if ``asked_ns``, the ring's time of modification, is new."""
        now = time.perf_counter()
        if self._off or (asked_ns == self._answered_ns and now < self._due_s):
            return
        try:
            self._due_s = now + EVERY_S
            self._say(ring, asked_ns, now)
            self._answered_ns = asked_ns
        except Exception:  # noqa: BLE001 - the script, torch and the interpreter may be in any state: then nothing is reported
            self._off = True

    def end(self) -> None:
        """Release what was taken from the process; called when the run ends."""
        self._off = True
        if self._pid == os.getpid():
            self._words.give_up()

    def forget(self) -> None:
        """Release in a forked child what it has inherited: the signal, and the parent's memory for it."""
        self._off = True
        self._words.give_up()

    def _say(self, ring: memoryview[int], asked_ns: int, now: float) -> None:
        if not self._prepared:
            self._prepared = True
            self._words.prepare()
            if self._off:  # the run has ended meanwhile, and releases nothing any more
                self._words.give_up()
                return
        self._words.check()
        trainer = _trainer
        thread = (trainer.trains_on() if trainer is not None else 0) or threading.main_thread().ident or 0
        step, stepped_s = trainer.last_step() if trainer is not None else (None, None)
        frame = sys._current_frames().get(thread)
        found = where(frames_of(frame), self._known)
        phase = trainer.phase_of(frame) if trainer is not None else "other"
        del frame  # it would keep the script's objects alive
        self._counters.read(now, asked=asked_ns != self._answered_ns)
        if self._counters.begun is not None:
            self._begun = self._counters.begun
        self._note_place((found.line, found.function, found.operation, step, self._begun), now)
        wall_ns = time.time_ns()
        standing = self._standing(found, phase, step, wall_ns / 1e9, now, stepped_s)
        if asked_ns != self._answered_ns or now - self._since_s > page.STILL_S:
            standing["groups"] = self._counters.groups()
        text = _fitting(standing)
        native = next((item.native_id for item in threading.enumerate() if item.ident == thread), None) or 0
        page.write(ring, page.Page(asked_ns, wall_ns, native, self._words.signal, self._words.descriptor, standing), text)

    def _standing(
        self, found: Where, phase: str, step: int | None, wall: float, now: float, stepped_s: float | None
    ) -> dict[str, Any]:
        return Standing.filled(
            at=wall,
            since=wall - (now - self._since_s),
            line=_shortened(found.line),
            function=_shortened(found.function),
            phase=phase,
            operation=found.operation,
            begun=self._counters.begun,
            completed=self._counters.completed,
            step=step if step is not None and step >= 0 else None,
            stepped=None if stepped_s is None else wall - (now - stepped_s),
            stack=[_shortened(call) or "" for call in found.stack],
        )

    def _note_place(self, place: tuple[Any, ...], now: float) -> None:
        if place != self._place:
            self._place, self._since_s = place, now

    def _known(self, path: str) -> bool:
        known = self._library.get(path)
        if known is None:
            known = self._library[path] = self._is_library(path)
        return known


def _fitting(standing: dict[str, Any]) -> bytes:
    """Return the text of the report, without the outer calls and the last groups that do not fit on the page."""
    while len(text := page.text_of(standing)) > page.TEXT_BYTES:
        if len(standing["stack"]) > 1:
            standing["stack"].pop()
        elif standing.get("groups"):
            standing["groups"].pop()
        else:
            break
    return text


def _shortened(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT_CHARACTERS else f"{text[: TEXT_CHARACTERS - 1]}…"
