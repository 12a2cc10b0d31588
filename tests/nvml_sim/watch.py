"""``NvmlSource`` in a separate process, as the agent runs it, asked for readings through its standard input.

The process is separate because the driver's library is found at its start, and because there is no other way to end a hanging
driver call. As a script, it obeys one command per line, and answers each with one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gputop.snapshot import Snapshot, encode
from gputop.sources.base import Reading
from gputop.wire import decode
from tests.nvml_sim import environment
from tests.patience import DEADLINE_S

ROOT = Path(__file__).parent.parent.parent


class Watch:
    """A watcher on a simulated machine, for a ``with`` statement."""

    def __init__(
        self, scenario: Path, interval_s: float = 0.05, environ: dict[str, str] | None = None, **options: float
    ) -> None:
        words = [f"{name}={value}" for name, value in options.items()]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.nvml_sim.watch", str(interval_s), *words],
            cwd=ROOT,
            env=environ or environment(scenario),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started = self._answer()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, command: str) -> Any:
        """Send a command; return the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the watcher ended"
        return json.loads(line)

    def read(self) -> Reading:
        """Return a reading."""
        reading = decode(Reading, self.ask("read"))
        return replace(reading, uses={int(pid): uses for pid, uses in reading.uses.items()})

    def snapshot(self) -> Snapshot:
        """Return the sampler's snapshot of a machine, once that has been read completely."""
        return decode(Snapshot, self.ask("snapshot"))

    def until(self, condition: Callable[[Reading], bool], what: str = "it") -> Reading:
        """Read until ``condition`` holds."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            reading = self.read()
            if condition(reading):
                return reading
            time.sleep(0.02)
        raise AssertionError(f"{what} did not come about; last: {reading}")

    def settled(self) -> Reading:
        """Read until every tier of every device has been read, and rates are known."""
        return self.until(
            lambda reading: all(
                device.state == "lost" or device.kind == "mig" or device.compute_mode is not None for device in reading.devices
            ),
            "a full reading",
        )


def main(interval_s: float, options: dict[str, float]) -> None:
    """Obey commands until the input ends: read, snapshot, pcie 0|1, interval S, restart, close."""
    from gputop.agent.sampler import Sampler
    from gputop.errors import NoGpuError
    from gputop.sources.nvml import events, worker
    from gputop.sources.nvml import source as nvml_source

    for name, value in options.items():
        if name in worker.EVERY_S:
            worker.EVERY_S[name] = value
            continue
        module = next(module for module in (worker, events, nvml_source) if hasattr(module, name))
        setattr(module, name, type(getattr(module, name))(value))
    source = nvml_source.NvmlSource()
    answer: Any = "started"
    try:
        source.start(interval_s)
    except NoGpuError as error:
        answer = {"code": error.code, "message": error.message, "hint": error.hint}
    print(json.dumps(answer), flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        answer = command
        if command == "read":
            answer = encode(source.read())
        elif command == "pcie":
            source.want_pcie(arguments[0] == "1")
        elif command == "interval":
            source.start(float(arguments[0]))
        elif command == "snapshot":
            source.wait_until_whole(DEADLINE_S)
            answer = encode(Sampler(source, interval_s).take())
        elif command == "restart":
            source.close()
            time.sleep(0.01)  # the simulation checks its file every 5 ms
            source = nvml_source.NvmlSource()
            source.start(interval_s)
        elif command == "close":
            source.close()
            print(json.dumps(answer), flush=True)
            return
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    given = dict(word.split("=") for word in sys.argv[2:])
    main(float(sys.argv[1]), {name: float(value) for name, value in given.items()})
