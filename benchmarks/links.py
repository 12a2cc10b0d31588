"""How long a key takes to reach the screen on links of different speeds, and how much queues on a slow one.

Eight busy simulated H100s and a tracked run that logs 20 steps per second, at 160x50, so that every pane changes. A relay sits
between gputop and the terminal, as ssh does: it accepts whatever gputop writes at once, without a limit, and passes it on at
the link's rate and delay; the terminal's answers and the keys have the same delay on the way back. For each link, it measures:

- the time from a key that opens a screen until all of the screen has arrived, while all panes change (median of several);
- while screens are opened and closed as fast as a held key repeats: the most bytes that wait in the relay, and how long the
  screen of the last key takes.

    python benchmarks/links.py [--against CHECKOUT] [--deaf] [--link N] [--json FILE]

``--deaf`` also measures a terminal that answers no queries, so that frames queue.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from common.ending import ended_by_signals

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import nvml_sim  # noqa: E402 - from the checkout
from tests.terminal import KEYS, Terminal  # noqa: E402

SETTLE_S = 6.0
ROUNDS = 3
REPEATS = 30
"""How often a held key repeats per second."""
HELD_S = 3.0
GIVEN_UP_S = 180.0
FAST = 1e9
"""The rate of an unlimited link, in bytes per second."""
ASK, ANSWER = b"\x1b[5n", b"\x1b[0n"
RUN = """
import math, time, gputop
run = gputop.init(name="gpt")
for step in range(10**9):
    run.log(loss=2.0 * math.exp(-step / 500) + 0.1 * math.sin(step), lr=3e-4, step=step)
    time.sleep(0.05)
"""
INSIDE = 'cd "$0" && exec "$@"'


class Link(NamedTuple):
    """A link between gputop and the terminal: bytes per second, and the delay of one direction in seconds."""

    name: str
    rate: float
    delay_s: float


LINKS = (Link("local", FAST, 0.0), Link("100 kB/s, 80 ms", 1e5, 0.04), Link("10 kB/s, 80 ms", 1e4, 0.04))
SCREENS = (("GPU", ("1", "enter"), "› GPU"), ("run", ("o",), "› run"), ("doctor", ("d",), "› doctor"),
           ("launch", ("l",), "› launch"), ("help", ("?",), "› help"))  # fmt: skip


class Pipe:
    """Delivers bytes at a rate and after a delay, in order."""

    def __init__(self, rate: float, delay_s: float, deliver: Callable[[bytes], object]) -> None:
        self.most_waiting = 0.0
        """The most bytes that were waiting at any time."""
        self._rate = rate
        self._delay_s = delay_s
        self._deliver = deliver
        self._free_at = 0.0
        self._under_way: queue.Queue[tuple[float, bytes]] = queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, data: bytes) -> None:
        """Take bytes."""
        now = time.monotonic()
        piece = max(64, int(min(65536.0, self._rate / 50)))
        self._free_at = max(self._free_at, now)
        for start in range(0, len(data), piece):
            cut = data[start : start + piece]
            self._free_at += len(cut) / self._rate
            self._under_way.put((self._free_at + self._delay_s, cut))
        self.most_waiting = max(self.most_waiting, (self._free_at - now) * self._rate)

    def _run(self) -> None:
        while True:
            at, data = self._under_way.get()
            time.sleep(max(0.0, at - time.monotonic()))
            self._deliver(data)


class FarTerminal(Terminal):
    """A terminal at the other end of a link. ``deaf``: it answers no queries.

    It records what arrived and when, and interprets it later: the emulator would take longer than the link.
    """

    def __init__(self, link: Link, deaf: bool, command: Sequence[str], environment: dict[str, str]) -> None:
        self.out = Pipe(link.rate, link.delay_s, self._arrived)
        self.back = Pipe(FAST, link.delay_s, self._typed)
        self.arrivals: list[tuple[float, bytes]] = []
        self._looked_at = 0
        self._deaf = deaf
        super().__init__(command, environment)

    def _read(self) -> None:
        while self._closed not in select.select((self._master, self._closed), (), ())[0]:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            self.out.put(data)

    def _arrived(self, data: bytes) -> None:
        self.arrivals.append((time.monotonic(), data))
        for _ in range(0 if self._deaf else data.count(ASK)):  # a query is rarely split over two pieces, because it is short
            self.back.put(ANSWER)

    def _typed(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._master, data)

    def press(self, *keys: str) -> None:
        """Press keys, which arrive after the link's delay."""
        for key in keys:
            self.back.put(KEYS.get(key, key).encode())
            time.sleep(0.3 if key == "escape" else 0.01)

    def __enter__(self) -> FarTerminal:
        return self

    def lines(self) -> list[str]:
        """Return the screen's lines."""
        self.when(lambda lines: False)
        return super().lines()

    def when(self, shows: Callable[[list[str]], object]) -> float | None:
        """Interpret what arrived, piece by piece; return when the screen first passed the check."""
        while self._looked_at < len(self.arrivals):
            at, data = self.arrivals[self._looked_at]
            self._looked_at += 1
            self._stream.feed(data)
            if shows(super().lines()):
                return at
        return None

    def shows(self, wanted: Callable[[list[str]], object]) -> float:
        """Return when the screen first passed the check, in monotonic seconds.

        Raises:
            SystemExit: it never did.
        """
        end = time.monotonic() + GIVEN_UP_S
        while time.monotonic() < end:
            if (at := self.when(wanted)) is not None:
                return at
            time.sleep(0.05)
        raise SystemExit("a screen never arrived:\n" + "\n".join(super().lines()))


def is_open(head: str) -> Callable[[list[str]], bool]:
    """Return a check that a screen is complete: its header and its last line."""
    return lambda lines: head in lines[0] and "Esc back" in lines[-1]


def is_closed(lines: list[str]) -> bool:
    """Return whether the dashboard is shown."""
    return "›" not in lines[0] and "q quit" in lines[-1]


def opens_s(terminal: FarTerminal, keys: tuple[str, ...], head: str, calm_s: float) -> float:
    """Return how long a screen takes to arrive after the last of the keys."""
    terminal.press(*keys[:-1])
    time.sleep(calm_s)
    terminal.lines()
    began = time.monotonic()
    terminal.press(keys[-1])
    time.sleep(calm_s)
    took = terminal.shows(is_open(head)) - began
    terminal.press("escape")
    terminal.shows(is_closed)
    return took


def held(terminal: FarTerminal) -> tuple[float, float]:
    """Open and close screens as fast as a held key repeats; return the most waiting bytes, and the seconds until the last."""
    terminal.out.most_waiting = 0.0
    end = time.monotonic() + HELD_S
    while time.monotonic() < end:
        for key in (b"d", b"d", b"?", b"?"):
            terminal.back.put(key)
            time.sleep(1 / REPEATS)
    terminal.back.put(b"l")
    began = time.monotonic()
    return terminal.out.most_waiting, terminal.shows(is_open("› launch")) - began


def measure(link: Link, deaf: bool, checkout: Path, environment: dict[str, str]) -> dict[str, float]:
    """Return the milliseconds of each screen, the most waiting bytes, and the seconds until the last of many screens."""
    command = ["sh", "-c", INSIDE, str(checkout), sys.executable, "-m", "gputop", "-i", "1"]
    found: dict[str, float] = {}
    with FarTerminal(link, deaf, command, {**environment, "PYTHONPATH": str(checkout)}) as terminal:
        terminal.wait_for("gpt")
        time.sleep(SETTLE_S)
        calm_s = 0.4 if link.rate == FAST else 1.2
        for name, keys, head in SCREENS:
            opened = [opens_s(terminal, keys, head, calm_s) for _ in range(ROUNDS)]
            found[f"{name} ms"] = 1000 * statistics.median(opened)
        found["most bytes waiting"], found["the last screen s"] = held(terminal)
        terminal.press("escape", "q")
        terminal.wait_exit()
    return found


def show(link: str, by_way: dict[str, dict[str, float]]) -> None:
    """Print the figures of a link."""
    print(f"{link}; load {os.getloadavg()[0]:.1f}")
    print(f"  {'':<22}" + "".join(f"{way:>12}" for way in by_way))
    for figure in by_way["gputop"]:
        print(f"  {figure:<22}" + "".join(f"{by[figure]:12.1f}" for by in by_way.values()), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, measured alternately with this one")
    parser.add_argument("--deaf", action="store_true", help="also measure a terminal that answers no queries")
    parser.add_argument("--link", type=int, choices=range(len(LINKS)), help="only this link: 0 is the fastest")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    ways = {"gputop": (ROOT, False)}
    ways |= {"deaf": (ROOT, True)} if options.deaf else {}
    ways |= {"before": (options.against.resolve(), False)} if options.against else {}
    links = LINKS if options.link is None else (LINKS[options.link],)
    found: dict[str, dict[str, dict[str, float]]] = {link.name: {} for link in links}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        state = place / "state"
        state.mkdir(mode=0o700)
        workers = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) for _ in range(8)]
        scenario = nvml_sim.living_box(8, pids=tuple(worker.pid for worker in workers)).write(place / "scenario")
        environment = {**nvml_sim.environment(scenario), "GPUTOP_DIR": str(state), "HOME": name, "PYTHONPATH": str(ROOT)}
        environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(place / "compiled")}  # as an installer does
        run = subprocess.Popen([sys.executable, "-c", RUN], env={**os.environ, **environment})
        try:
            for link in links:
                for way, (checkout, deaf) in ways.items():
                    found[link.name][way] = measure(link, deaf, checkout, environment)
                show(link.name, found[link.name])
        finally:
            for process in (run, *workers):
                process.kill()
                process.wait()
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    with ended_by_signals():
        main()
