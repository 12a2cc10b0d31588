"""How many bytes the screen sends: at its start, for each key that opens, closes or moves something, and per second between.

On eight busy simulated H100s, with a tracked run that logs 20 steps per second. The bytes of a key are counted until the second
of the next reading begins, so they include some of that reading. Bytes do not depend on the machine; the time that they take on
a slow link does.

    python benchmarks/keys.py [--against CHECKOUT] [--size 160x50] [--json FILE]

``--against`` measures another checkout alternately with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import nvml_sim  # noqa: E402 - from the checkout
from tests.terminal import Terminal  # noqa: E402

ROUNDS = 3
SETTLE_S = 5.0
OPENED_S = 1.0
INSIDE = 'cd "$0" && exec "$@"'
RUN = """
import math, time, gputop
run = gputop.init(name="gpt")
for step in range(10**9):
    run.log(loss=2.0 * math.exp(-step / 500) + 0.1 * math.sin(step), lr=3e-4, step=step)
    time.sleep(0.05)
"""


class Key(NamedTuple):
    """The keys, what they do, and how long to watch the screen after them."""

    name: str
    keys: tuple[str, ...]
    watched_s: float = OPENED_S


TOUR = (
    Key("Tab", ("tab",)),
    Key("Down", ("down",)),
    Key("open a GPU", ("1", "enter")),
    Key("a second of it", (), 5.0),
    Key("close it", ("escape",)),
    Key("open the run", ("2", "enter")),
    Key("a second of it", (), 5.0),
    Key("close it", ("escape",)),
    Key("open the doctor", ("d",)),
    Key("a second of it", (), 5.0),
    Key("close it", ("escape",)),
    Key("open the launch screen", ("l",)),
    Key("close it", ("escape",)),
    Key("open help", ("?",)),
    Key("close it", ("escape",)),
)


def tour(checkout: Path, environment: dict[str, str], columns: int, rows: int) -> dict[str, float]:
    """Return the bytes of the start, of one second of the dashboard, and of each key."""
    environment = {**environment, "PYTHONPATH": str(checkout)}
    found: dict[str, float] = {}
    with Terminal(
        ["sh", "-c", INSIDE, str(checkout), sys.executable, "-m", "gputop", "-i", "1"], environment, columns, rows
    ) as terminal:
        terminal.wait_for("gpt")
        time.sleep(SETTLE_S)
        found["start"] = len(terminal.received)
        screen = "the dashboard"
        found["a second of the dashboard"] = counted(terminal, Key("", (), SETTLE_S)) / SETTLE_S
        for key in TOUR:
            name = key.name.replace("it", screen) if " it" in key.name else key.name
            if key.name.startswith("open "):
                screen = key.name.removeprefix("open ")
            sent = counted(terminal, key)
            found[name] = sent / key.watched_s if not key.keys else sent
        terminal.press("q")
        terminal.wait_exit()
    return found


def counted(terminal: Terminal, key: Key) -> int:
    """Press the keys, and return the bytes that arrive until their time is over."""
    before = len(terminal.received)
    for pressed in key.keys:
        terminal.press(pressed)
    time.sleep(key.watched_s)
    return len(terminal.received) - before


def measure(checkouts: dict[str, Path], columns: int, rows: int) -> dict[str, dict[str, float]]:
    """Return the median bytes of each key for each checkout."""
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        state = place / "state"
        state.mkdir(mode=0o700)
        scenario = nvml_sim.h100_box(8, busy=8).write(place / "scenario")
        environment = {**nvml_sim.environment(scenario), "GPUTOP_DIR": str(state), "HOME": name, "PYTHONPATH": str(ROOT)}
        run = subprocess.Popen([sys.executable, "-c", RUN], env={**os.environ, **environment})
        try:
            for _ in range(ROUNDS):
                for checkout, path in checkouts.items():
                    rounds[checkout].append(tour(path, environment, columns, rows))
        finally:
            run.kill()
            run.wait()
    return {
        checkout: {key: statistics.median(one[key] for one in found) for key in found[0]} for checkout, found in rounds.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, measured alternately with this one")
    parser.add_argument("--size", default="160x50", help="columns x rows (default 160x50)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    checkouts = {"gputop": ROOT} | ({"before": options.against.resolve()} if options.against else {})
    found = measure(checkouts, columns, rows)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    print(f"bytes at {options.size}, median of {ROUNDS}")
    for key, sent in found["gputop"].items():
        before = found.get("before", {}).get(key)
        ratio = f"  ratio {sent / before:.2f}" if before else ""  # a busy machine may answer a key too late
        print(f"  {key:<32}{sent:8.0f}" + (f"  before {before:8.0f}{ratio}" if before is not None else ""))


if __name__ == "__main__":
    main()
