"""The source of a screen's snapshots: the sampler's stream (``gputop.agent.live``) or a recording (``ReplayFeed``).

A feed reads in its own thread, stores what arrives and calls ``notify``; the screen drains it. Every snapshot is kept until
drained, because each carries points that no later one repeats. With ``ask``, a screen requests what a snapshot does not
carry; answers arrive the same way as snapshots. This module imports neither textual nor any source's library, and imports
the records only when it reads, so that the sampler starts sooner.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from gputop.questions import Answer, Question
    from gputop.snapshot import Snapshot
    from gputop.sources.recording import Place

SPEEDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0)
MAX_GAP_S = 10.0
"""A replay never waits longer than this for the next snapshot, however long the pause in the recording."""

ANSWERS_MAX = 16
"""Limit for unclaimed answers; the oldest are dropped, because the screen that asked is gone."""
WAITING_BYTES_MAX = 4 << 20
"""While more bytes of lines than this wait for the screen (parsed, they take five times as much memory), no more are read.
The sampler then delays its next reading, which holds a bounded number of points however late it is. Without this limit, a
screen on an overloaded machine takes hundreds of MiB and shows what is long past."""
WAITING_MAX = 64
"""At most this many snapshots of a recording wait for the screen: a few MiB, too."""
LANDMARK_EVERY = 100
"""A replay can begin again at each hundredth snapshot: replaying this many takes about 0.1 s."""
LOOK_AGAIN_S = 1.0
"""How often a feed that waits for the screen checks whether it has been closed."""
T = TypeVar("T")
FeedKind = Literal["live", "replay"]


class Feed(Protocol):
    """A stream of snapshots for one screen."""

    kind: FeedKind
    host: str | None
    """The machine that the stream comes from, as the user named it; None for this one and for a recording."""

    def start(self, notify: Callable[[], object]) -> None:
        """Start delivering; ``notify`` is called from another thread whenever something arrives or changes."""

    def drain(self) -> list[Snapshot]:
        """Return what has arrived since the last call, oldest first."""

    def ask(self, question: Question) -> None:
        """Ask and return at once. A replay never answers; a live feed answers only the newest question of each kind."""

    def age_s(self, snapshot: Snapshot) -> float:
        """Return how old a snapshot is that has just been drained, in seconds; 0 where that is not known."""

    def take_answers(self) -> list[Answer]:
        """Return the answers that have arrived since the last call, oldest first."""

    def problem(self) -> str | None:
        """Return why no snapshots come, or None. Before the first snapshot: why none will come."""

    def status(self) -> str | None:
        """Return the position and speed of a replay; None for a live stream."""

    def set_interval(self, interval_s: float) -> None:
        """Request a different interval; a replay ignores it."""

    def want_pcie(self, wanted: bool) -> None:
        """Request PCIe throughput even where measuring it is expensive, or end the request; a replay ignores it."""

    def close(self) -> None:
        """Stop at once, without waiting for a driver."""


class Inbox:
    """What a feed's thread has read and the screen has not yet taken."""

    host: str | None = None

    def __init__(self, snapshots_max: int | None = None) -> None:
        self._pending: deque[Snapshot] = deque(maxlen=snapshots_max)
        self._answers: deque[Answer] = deque(maxlen=ANSWERS_MAX)
        self._waiting_bytes = 0
        self._taken = threading.Event()
        self._closed = threading.Event()

    def drain(self) -> list[Snapshot]:
        """Return the snapshots that have arrived since the last call, oldest first, and let more arrive."""
        found = _taken(self._pending)
        self._taken.set()
        return found

    def age_s(self, snapshot: Snapshot) -> float:
        """Return 0: it counts as new when it is drained."""
        return 0.0

    def _wait_for_room(self, waiting_max: int | None = None) -> None:
        """While too many bytes or snapshots (``waiting_max``) wait for the screen, wait until it takes them."""
        while self._pending and not self._closed.is_set():
            if self._waiting_bytes < WAITING_BYTES_MAX and (waiting_max is None or len(self._pending) < waiting_max):
                return
            self._taken.wait(LOOK_AGAIN_S)
            self._taken.clear()
        if not self._pending:
            self._waiting_bytes = 0

    def take_answers(self) -> list[Answer]:
        """Return the answers that have arrived since the last call, oldest first; a recording has none."""
        return _taken(self._answers)


def _taken(queue: deque[T]) -> list[T]:
    found = []
    while queue:  # the feed's thread appends meanwhile
        found.append(queue.popleft())
    return found


Landmark = tuple[int, float]
"""The sequence and time of a snapshot of a recording."""


def landmark(snapshot: Snapshot) -> Landmark:
    """Return what tells a snapshot from the others of a recording."""
    return snapshot.sequence, snapshot.time


class ReplayFeed(Inbox):
    """A recording, played at its own pace; it can be paused, stepped, sped up, and taken to an earlier or a later place.

    To go back, it is played from a landmark before there without a pause: that snapshot then comes again. The screen says at
    which landmarks it knows what came before them (``begin_from``); else that is the beginning.
    """

    kind: FeedKind = "replay"

    def __init__(self, path: Path, speed: float = 1.0) -> None:
        super().__init__()
        self._wake = threading.Condition()
        self._speed = speed
        self._paused = False
        self._steps = 0
        self._target_s: float | None = None
        """Where to go without a pause, in seconds from the beginning; None: play."""
        self._anew = False
        """Whether that is before what was played last."""
        self._ended = False
        self._problem: str | None = None
        self._first_time: float | None = None
        self._position_s = 0.0
        self._path = path
        self._landmarks: dict[Landmark, tuple[float, Place]] = {}
        """Their positions in seconds, and where they begin in the file."""
        self._known: frozenset[Landmark] = frozenset()

    def start(self, notify: Callable[[], object]) -> None:
        """Play in a daemon thread."""
        threading.Thread(target=self._play, args=(notify,), daemon=True, name="replay").start()

    def _play(self, notify: Callable[[], object]) -> None:
        while not self._closed.is_set():
            with self._wake:
                self._anew = self._ended = False
                start = self._start()
            try:
                if not self._play_from(start, notify):
                    continue
            except Exception as error:  # noqa: BLE001 - the screen shows the error; a thread's traceback would garble it
                self._problem = str(error)
            with self._wake:
                self._ended, self._target_s = True, None
            notify()
            with self._wake:
                self._wake.wait_for(lambda: self._anew or self._closed.is_set())

    def _start(self) -> Place | None:
        """Return where to begin to reach the target; None: at the beginning. The caller holds the lock."""
        target_s = self._target_s or 0.0
        before = [found for found in map(self._landmarks.get, self._known) if found is not None and found[0] <= target_s]
        return max(before)[1] if before else None

    def _play_from(self, start: Place | None, notify: Callable[[], object]) -> bool:
        """Deliver the snapshots; return False if that was left off because the feed was closed, or is to begin again."""
        from gputop.sources.recording import BEGINNING, read_from

        before: float | None = None
        for number, (place, snapshot) in enumerate(read_from(self._path, start or BEGINNING)):
            first = self._first_time = self._first_time if self._first_time is not None else snapshot.time
            if not self._wait(snapshot.time - before if before is not None else 0.0, snapshot.time - first):
                return False
            self._wait_for_room(WAITING_MAX)
            before = snapshot.time
            self._position_s = snapshot.time - first
            if number % LANDMARK_EVERY == 0:
                with self._wake:
                    self._landmarks[landmark(snapshot)] = self._position_s, place
            self._pending.append(snapshot)
            notify()
        return True

    def is_landmark(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot that was delivered is one where the replay can begin again."""
        return landmark(snapshot) in self._landmarks

    def begin_from(self, known: Iterable[Landmark]) -> None:
        """Say at which landmarks the screen knows what came before them."""
        with self._wake:
            self._known = frozenset(known)

    def _wait(self, gap_s: float, position_s: float) -> bool:
        """Wait for the gap before this position at the current speed; return False if closed, or if it is to begin again.

        A step ends the wait at once. There is no wait on the way to the target of ``seek``.
        """
        left = min(MAX_GAP_S, max(0.0, gap_s))
        with self._wake:
            while not self._closed.is_set():
                if self._anew:
                    return False
                if self._target_s is not None and position_s <= self._target_s:
                    return True
                self._target_s = None
                if self._steps:
                    self._steps -= 1
                    return True
                if not self._paused and left <= 0:
                    return True
                began = time.monotonic()
                speed = self._speed
                self._wake.wait(None if self._paused else left / speed)
                if not self._paused:
                    left -= (time.monotonic() - began) * speed
        return False

    def toggle_pause(self) -> None:
        """Pause or resume."""
        with self._wake:
            self._paused = not self._paused
            self._wake.notify()

    def step(self) -> None:
        """Pause, and show the next snapshot."""
        with self._wake:
            self._paused = True
            self._steps += 1
            self._wake.notify()

    @property
    def is_at_end(self) -> bool:
        """Whether all of it was played."""
        return self._ended

    def seek(self, by_s: float) -> None:
        """Go this many seconds forward, or back if negative; further calls add up."""
        with self._wake:
            target_s = max(0.0, (self._position_s if self._target_s is None else self._target_s) + by_s)
            self._target_s, self._anew = target_s, target_s < self._position_s
            self._wake.notify()

    def minute(self) -> float:
        """Return the seconds of the recording that pass in a minute at the present speed."""
        return 60.0 * self._speed

    def faster(self) -> None:
        """Switch to the next higher speed of ``SPEEDS``."""
        self._set_speed(next((speed for speed in SPEEDS if speed > self._speed), SPEEDS[-1]))

    def slower(self) -> None:
        """Switch to the next lower speed of ``SPEEDS``."""
        self._set_speed(next((speed for speed in reversed(SPEEDS) if speed < self._speed), SPEEDS[0]))

    def _set_speed(self, speed: float) -> None:
        with self._wake:
            self._speed = speed
            self._wake.notify()

    def ask(self, question: Question) -> None:
        """Do nothing: a recording contains only its snapshots."""

    def problem(self) -> str | None:
        """Return why the rest of the file could not be read."""
        return self._problem

    def status(self) -> str | None:
        """Return e.g. "12s ×2 paused"."""
        from gputop.units import duration

        state = " end" if self._ended and not self._anew else (" paused" if self._paused else "")
        return f"{duration(self._position_s)} ×{self._speed:g}{state}"

    def set_interval(self, interval_s: float) -> None:
        """Do nothing: a recording keeps its own intervals."""

    def want_pcie(self, wanted: bool) -> None:
        """Do nothing: a recording contains what was measured."""

    def close(self) -> None:
        """End the thread."""
        with self._wake:
            self._closed.set()
            self._wake.notify()
