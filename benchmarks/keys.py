"""How many bytes the screen sends: at its start, for each key that opens, closes or moves something, and per second between.

On eight busy simulated H100s, with a tracked run that logs 20 steps per second. A key is pressed right after the frame of a
reading. Its own bytes are those that arrive before the next reading is due; the second figure is for the whole second after it,
with the frame of that reading and all that the key makes arrive later. Bytes do not depend on the machine; the time that they
take on a slow link does.

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

from common.ending import ended_by_signals

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import nvml_sim  # noqa: E402 - from the checkout
from tests.terminal import Terminal  # noqa: E402

ROUNDS = 3
SETTLE_S = 5.0
OPENED_S = 1.0
OWN_S = 0.6
"""The next frame is due this long after the one before, at the earliest: readings come every second and are drawn at once."""
QUIET_S = 0.15
"""A frame is complete once nothing has come for this long."""
INSIDE = 'cd "$0" && exec "$@"'
RUN = """
import math, time, gputop
run = gputop.init(name="gpt")
for step in range(10**9):
    run.log(loss=2.0 * math.exp(-step / 500) + 0.1 * math.sin(step), lr=3e-4, step=step)
    time.sleep(0.05)
"""


class Key(NamedTuple):
    """A key, what it does, and what to press before it. Without a key: seconds of the screen."""

    name: str
    key: str = ""
    before: str = ""


TOUR = (
    Key("Tab", "tab"),
    Key("Down", "down"),
    Key("open a GPU", "enter", before="1"),
    Key("a second of it"),
    Key("close it", "escape"),
    Key("open the run", "enter", before="2"),
    Key("a second of it"),
    Key("close it", "escape"),
    Key("open the doctor", "d"),
    Key("a second of it"),
    Key("close it", "escape"),
    Key("open the launch screen", "l"),
    Key("close it", "escape"),
    Key("open help", "?"),
    Key("close it", "escape"),
)


class Sent(NamedTuple):
    """The bytes of a key by themselves, and within a second; of a second of a screen, both are the same."""

    own: float
    within_a_second: float


def tour(checkout: Path, environment: dict[str, str], columns: int, rows: int) -> dict[str, Sent]:
    """Return the bytes of the first five seconds, of one second of the dashboard, and of each key."""
    environment = {**environment, "PYTHONPATH": str(checkout)}
    found: dict[str, Sent] = {}
    command = ["sh", "-c", INSIDE, str(checkout), sys.executable, "-m", "gputop", "-i", "1"]
    with Terminal(command, environment, columns, rows) as terminal:
        time.sleep(SETTLE_S)
        found["start, 5 s"] = Sent(*[len(terminal.received)] * 2)
        terminal.wait_for("gpt")
        screen = "the dashboard"
        found["a second of the dashboard"] = counted(terminal, Key(""))
        for key in TOUR:
            name = key.name.replace("it", screen) if " it" in key.name else key.name
            if key.name.startswith("open "):
                screen = key.name.removeprefix("open ")
            found[name] = counted(terminal, key)
        terminal.press("escape", "escape", "q")  # a key that came before its screen may have gone into a field
        terminal.wait_exit()
    return found


def counted(terminal: Terminal, key: Key) -> Sent:
    """Press a key after a frame, and return the bytes that arrive."""
    if key.before:
        terminal.press(key.before)
        time.sleep(OPENED_S)
    wait_for_frame(terminal)
    before = len(terminal.received)
    if not key.key:
        time.sleep(SETTLE_S)
        return Sent(*[(len(terminal.received) - before) / SETTLE_S] * 2)
    began = time.monotonic()
    terminal.press(key.key)
    time.sleep(max(0.0, began + OWN_S - time.monotonic()))
    own = len(terminal.received) - before
    time.sleep(max(0.0, began + OPENED_S - time.monotonic()))
    return Sent(own, len(terminal.received) - before)


def wait_for_frame(terminal: Terminal) -> None:
    """Wait until the frame of a reading has begun and ended. A screen that stays still has none: wait a second there."""
    size, until = len(terminal.received), time.monotonic() + 2 * OPENED_S
    while len(terminal.received) == size and time.monotonic() < until:
        time.sleep(0.01)
    while len(terminal.received) != size:
        size = len(terminal.received)
        time.sleep(QUIET_S)


def measure(checkouts: dict[str, Path], columns: int, rows: int) -> dict[str, dict[str, Sent]]:
    """Return the median bytes of each key for each checkout."""
    rounds: dict[str, list[dict[str, Sent]]] = {name: [] for name in checkouts}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        state = place / "state"
        state.mkdir(mode=0o700)
        scenario = nvml_sim.h100_box(8, busy=8).write(place / "scenario")
        environment = {**nvml_sim.environment(scenario), "GPUTOP_DIR": str(state), "HOME": name, "PYTHONPATH": str(ROOT)}
        environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(place / "compiled")}  # as an installer does
        run = subprocess.Popen([sys.executable, "-c", RUN], env={**os.environ, **environment})
        try:
            for _ in range(ROUNDS):
                for checkout, path in checkouts.items():
                    rounds[checkout].append(tour(path, environment, columns, rows))
        finally:
            run.kill()
            run.wait()
    return {
        checkout: {key: Sent(*map(statistics.median, zip(*(one[key] for one in found), strict=True))) for key in found[0]}
        for checkout, found in rounds.items()
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
        named = {checkout: {key: sent._asdict() for key, sent in keys.items()} for checkout, keys in found.items()}
        options.json.write_text(json.dumps(named, indent=2) + "\n")
    print(f"bytes at {options.size}, median of {ROUNDS}: of the key itself, and within a second")
    for key, sent in found["gputop"].items():
        before = found.get("before", {}).get(key)
        ratio = f"  ratio {sent.own / before.own:.2f}" if before and before.own else ""  # a busy machine may answer too late
        was = f"  before {before.own:8.0f}{before.within_a_second:8.0f}{ratio}" if before is not None else ""
        print(f"  {key:<32}{sent.own:8.0f}{sent.within_a_second:8.0f}{was}")


if __name__ == "__main__":
    with ended_by_signals():
        main()
