"""Makes the README's picture: the real dashboard, drawn from snapshots as if they came from a machine, and exported by Textual.

Run it as ``make picture``. The readings are those of ``tests/samples.py``, labelled simulated on the picture. They are not
replayed: the last line would name the keys of a replay, and not those that a reader of the README gets.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TEXTUAL_ANIMATIONS"] = "none"

from gputop.settings.values import Settings
from gputop.snapshot import Points, Rank, Snapshot
from gputop.tui.app import GputopApp
from tests import samples
from tests.tui.kit import StillFeed

SECONDS = 300
STEP = {
    "step_s": 0.161,
    "phase/data": 0.006,
    "phase/forward": 0.048,
    "phase/backward": 0.084,
    "phase/communication": 0.014,
    "phase/optimizer": 0.007,
}
"""What a step takes at the pace of the samples."""


class UnhurriedFeed(StillFeed):
    """A still feed whose snapshots do not become stale, however long a busy machine takes to draw them."""

    def age_s(self, snapshot: Snapshot) -> float:
        return -3600.0


def stream(seconds: int = SECONDS) -> list[Snapshot]:
    """Four ranks on one of eight GPUs: what the doctor is made for."""
    result = []
    for second in range(seconds):
        base = samples.ranks_on_one_gpu(second)
        busy = dataclasses.replace(base.devices[0], utilization_percent=93 + 6 * math.sin(second / 4))
        host = dataclasses.replace(base.host, simulated=True, driver_version="580.95.05-sim")
        runs = [dataclasses.replace(run, ranks=tuple(_at(rank, base.time) for rank in run.ranks)) for run in base.runs]
        points = tuple(_up_to(part, runs[0].step or 0) for part in base.points)
        shown = dataclasses.replace(base, host=host, devices=(busy, *base.devices[1:]), runs=tuple(runs), points=points)
        result.append(shown)
    return result


def _at(rank: Rank, time: float) -> Rank:
    """Return the rank with the parts of its newest step; the ranks take turns on their GPU."""
    metrics = {name: value * (1 + 0.01 * rank.rank) for name, value in STEP.items()}
    return dataclasses.replace(rank, last_log_at=time, metrics={**rank.metrics, **metrics})


def _up_to(points: Points, step: int) -> Points:
    """Return the points at other steps, the last of which is ``step``."""
    last = points.steps[-1]
    return dataclasses.replace(points, steps=tuple(known * step // last for known in points.steps))


async def draw(target: Path, size: tuple[int, int]) -> None:
    """Write the SVG of the dashboard in a terminal of ``size``."""
    snapshots = stream()
    feed: Any = UnhurriedFeed(*snapshots)
    app = GputopApp(feed, Settings())
    async with app.run_test(size=size) as pilot:
        while app.view is None or app.view.snapshot.sequence < snapshots[-1].sequence or app.view.loading:
            await pilot.pause(0.05)
        await pilot.pause(0.3)
        target.write_text(app.export_screenshot(title="gputop (simulated GPUs)"))


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else "dashboard.svg")
    columns, rows = (int(part) for part in (sys.argv[2] if len(sys.argv) > 2 else "160x50").split("x"))
    where.parent.mkdir(parents=True, exist_ok=True)
    asyncio.run(draw(where, (columns, rows)))
