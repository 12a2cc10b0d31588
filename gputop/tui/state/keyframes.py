"""What a screen knew at some places of a recording, so that a replay can go back without playing everything from its beginning.

A keyframe is the pickled state before a snapshot was taken in. They take a bounded amount of memory: those far from where the
replay is are further apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gputop.agent.feed import Landmark

KEYFRAME_BYTES = 64 << 20
"""All keyframes together: about 20 of an hour of 8 GPUs."""


class Keyframes:
    """Pickled states by the snapshot that comes next, each of which can be restored any number of times."""

    def __init__(self, limit_bytes: int = KEYFRAME_BYTES) -> None:
        self._limit = limit_bytes
        self._states: dict[Landmark, bytes] = {}
        self._began: float | None = None

    def __iter__(self) -> Iterator[Landmark]:
        return iter(self._states)

    def __contains__(self, key: Landmark) -> bool:
        return key in self._states

    def keep(self, key: Landmark, state: Any) -> None:
        """Keep a state, and drop the keyframes that save least: those close to others, and far from here."""
        import pickle  # a live screen needs none of it

        self._began = key[1] if self._began is None else self._began
        self._states[key] = pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)
        while sum(map(len, self._states.values())) > self._limit:
            del self._states[self._least(key[1])]

    def restore(self, key: Landmark) -> Any:
        """Return a copy of a state."""
        import pickle

        return pickle.loads(self._states[key])

    def _least(self, now: float) -> Landmark:
        """Return the keyframe whose neighbors in time are closest, as seen from ``now``."""
        keys = sorted(self._states, key=lambda key: key[1])
        began = self._began if self._began is not None else now
        times = [began, *(time for _, time in keys), keys[-1][1]]
        gaps = {key: times[place + 2] - times[place] for place, key in enumerate(keys)}
        return min(keys, key=lambda key: gaps[key] / (1.0 + abs(now - key[1])))
