"""Runs demos for tests, in real processes with a real gloo group; gives their output and the content of their journals."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputop.snapshot import Points, Run
from gputop.tracking.reader.runs import RunReader
from tests import REPOSITORY
from tests.facts.checks import assert_facts
from tests.nursery import Training, nursery
from tests.patience import DEADLINE_S

DEMOS = REPOSITORY / "demos"
RANK = Path(__file__).with_name("rank.py")
GRACE_S = 2.0


@dataclass
class Ran:
    """A run that has ended; one exit code and one text for each rank."""

    codes: list[int]
    texts: list[str]
    run: Run | None
    points: list[Points]

    @property
    def text(self) -> str:
        """What all ranks printed."""
        return "\n".join(self.texts)

    def series(self, metric: str, rank: int = 0) -> list[float]:
        """Return a metric's values on one rank."""
        return [value for part in self.points if (part.metric, part.rank) == (metric, rank) for value in part.values]

    def fact(self, name: str, rank: int = 0) -> Any:
        """Return a fact of a rank; None if the rank did not state it."""
        assert self.run is not None, self.text
        return self.run.ranks[rank].facts.get(name)

    def weights(self) -> list[str]:
        """Return the checksums of the weights that the ranks printed at the end."""
        return [re.findall(r"ends with weights (\w+)", text)[-1] for text in self.texts]

    def beginnings(self) -> list[list[str]]:
        """Return, for each rank, the checksum of each epoch's first batch."""
        return [re.findall(r"begins with batch (\w+)", text) for text in self.texts]

    def learned(self, factor: float, rank: int = 0) -> None:
        """Assert that the loss fell from that of guessing to less than ``factor`` times it."""
        loss = self.series("loss", rank)
        assert 2.1 < sum(loss[:5]) / 5 < 2.7, loss[:5]  # ln 10 = 2.3: guessing among ten classes
        assert sum(loss[-10:]) / 10 < factor * sum(loss[:5]) / 5, self.text


def run_demo(
    script: str,
    *argv: object,
    ranks: int = 2,
    seconds: float = DEADLINE_S,
    env: Mapping[str, str] | None = None,
    **options: object,
) -> Ran:
    """Run ``demos/<script>.py`` to its end; ``ranks`` 0 means without a launcher. ``options`` become --options."""
    words = [str(word) for word in argv]
    for name, value in options.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    with tempfile.TemporaryDirectory() as out:
        home = {"HOME": out, "GPUTOP_DIR": f"{out}/gputop", "GPUTOP_AUTO": "1", "GPUTOP_RUN_ID": "demo"}
        virtual = {"CUDA_VISIBLE_DEVICES": "", "GPUTOP_VIRTUAL_DEVICES": "0,1", "OMP_NUM_THREADS": "1"}
        given = {**os.environ, "PYTHONPATH": str(REPOSITORY), **home, **virtual}
        if ranks:
            size = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
            given |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **size}
        given |= env or {}
        command = [sys.executable, str(RANK), str(DEMOS / f"{script}.py"), *words]
        started = []
        for rank in range(ranks or 1):
            number = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks else {}
            with Path(out, f"{rank}.txt").open("wb") as file:
                started.append(nursery().start(command, REPOSITORY, {**given, **number}, output=file))
        _wait(started, seconds)
        texts = [Path(out, f"{rank}.txt").read_text(errors="replace") for rank in range(max(1, ranks))]
        update = RunReader(Path(out, "gputop", "runs")).poll()
        for run in update.runs:
            for rank in run.ranks:
                assert_facts(rank.facts)
        codes = [each.wait() for each in started]
        return Ran(codes, texts, update.runs[0] if update.runs else None, list(update.points))


def _wait(started: Sequence[Training], seconds: float) -> None:
    """Wait for all ranks as torchrun does: if one fails, the others end a moment later and can report what they see."""
    deadline, graced = time.monotonic() + seconds, False
    while any(each.poll() is None for each in started):
        if not graced and any(each.returncode for each in started):
            deadline, graced = min(deadline, time.monotonic() + GRACE_S), True
        if time.monotonic() > deadline:
            for each in started:
                each.send_signal(signal.SIGUSR1)  # it prints its stack
            time.sleep(0.5)
            _kill(started)
        time.sleep(0.01)
    _kill(started)  # loader processes that a rank left behind


def _kill(started: Sequence[Training]) -> None:
    for each in started:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(each.pid, signal.SIGKILL)


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
