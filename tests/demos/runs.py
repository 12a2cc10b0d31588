"""Runs of demos for tests: real processes and a real gloo group; what they printed, and what their journals hold."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputop.snapshot import Points, Run
from gputop.tracking.reader.runs import RunReader
from tests import REPOSITORY
from tests.facts.checks import assert_facts

DEMOS = REPOSITORY / "demos"


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
        """Return a fact of a rank; None where it is not said."""
        assert self.run is not None, self.text
        return self.run.ranks[rank].facts.get(name)

    def weights(self) -> list[str]:
        """Return the checksums of the weights that the ranks printed at the end."""
        return [re.findall(r"ends with weights (\w+)", text)[-1] for text in self.texts]

    def beginnings(self) -> list[list[str]]:
        """Return, for each rank, the checksum of each epoch's first batch."""
        return [re.findall(r"begins with batch (\w+)", text) for text in self.texts]

    def learned(self, factor: float, rank: int = 0) -> None:
        """Assert that the loss fell from that of guessing to less than ``factor`` of it."""
        loss = self.series("loss", rank)
        assert 2.1 < sum(loss[:5]) / 5 < 2.7, loss[:5]  # ln 10 = 2.3: ten classes, nothing known yet
        assert sum(loss[-10:]) / 10 < factor * sum(loss[:5]) / 5, self.text


class Nursery:
    """The program that forks ranks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(REPOSITORY / "tests" / "demos" / "nursery.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def run(
        self,
        script: str,
        *argv: object,
        ranks: int = 2,
        seconds: float = 60,
        env: Mapping[str, str] | None = None,
        **options: object,
    ) -> Ran:
        """Run ``demos/<script>.py`` to its end; ``ranks`` 0: without a launcher. ``options`` become --options."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [str(word) for word in argv]
        for name, value in options.items():
            words += ["--" + name.replace("_", "-"), str(value)]
        with tempfile.TemporaryDirectory() as out:
            home = {"HOME": out, "GPUTOP_DIR": f"{out}/gputop", "GPUTOP_AUTO": "1", "GPUTOP_RUN_ID": "demo"}
            virtual = {"CUDA_VISIBLE_DEVICES": "", "GPUTOP_VIRTUAL_DEVICES": "0,1", "OMP_NUM_THREADS": "1"}
            master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())} if ranks else {}
            asked = {
                "script": str(DEMOS / f"{script}.py"),
                "argv": words,
                "ranks": ranks,
                "seconds": seconds,
                "grace": 2.0,
                "env": {**home, **virtual, **master, **(env or {})},
                "out": out,
            }
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            codes = json.loads(self._process.stdout.readline())
            texts = [Path(out, f"{rank}.txt").read_text(errors="replace") for rank in range(max(1, ranks))]
            update = RunReader(Path(out, "gputop", "runs")).poll()
            for run in update.runs:
                for rank in run.ranks:
                    assert_facts(rank.facts)
            return Ran(codes, texts, update.runs[0] if update.runs else None, list(update.points))


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
