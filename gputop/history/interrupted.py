"""Whether a stream continues with a snapshot, or begins again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputop.snapshot import Snapshot

GAP_S = 60.0
"""A longer gap (a suspended machine, a jump in a replay) interrupts a stream, unless the intervals are longer."""


def is_interrupted(last: Snapshot | None, snapshot: Snapshot) -> bool:
    """Return whether a snapshot does not continue the last one: another machine, a restarted sampler, a jump back, or a gap."""
    if last is None:
        return False
    passed = snapshot.monotonic_s - last.monotonic_s
    gap = max(GAP_S, 3 * snapshot.interval_s) if math.isfinite(snapshot.interval_s) else GAP_S
    moved = (snapshot.host.hostname, snapshot.host.boot_id) != (last.host.hostname, last.host.boot_id)
    return moved or snapshot.sequence < last.sequence or passed < 0 or passed > gap
