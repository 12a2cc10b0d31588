"""How long gputop takes to show a training that has run for a while without it, and to name the rank that others wait for.

Each training is started by ``torchrun`` (two ranks), ``torch.multiprocessing.spawn`` (two processes) or ``python``: with
``nohup``, recorded by TensorBoard, W&B offline, Lightning's CSVLogger and Transformers' Trainer state, or in tmux. gputop
starts 20 s after it (W&B writes its file every 15 s, so 35 s after those with ``nohup``). ``gputop --stream`` shows when the
run, its ranks and each curve are there, value for value; then ``gputop`` itself shows when the best curve is on the screen.

``gputop where`` is asked about two real gloo ranks that stand still in one way after another. Its time is that of the whole
command, from its start to its end; an answer counts only if it names the rank and the line, or, of a rank that has left, its
exit code: gloo's other rank fails at once.

    python benchmarks/attach.py [--quick] [--only CASE]... [--json FILE]

Takes about five minutes on two idle cores; ``--quick`` leaves out most of the trainings, and ``--only`` all but the named cases
("plain in tmux", "torchrun by nohup", "where"). A case in which something never appears is reported, and the others go on; the
exit code is then 1.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common.ending import ended_by_signals

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gputop.snapshot import ProcessRun, Snapshot  # noqa: E402 - from the checkout
from tests.terminal import Terminal  # noqa: E402
from tests.tracking.kit import Home, clean_environment  # noqa: E402
from tests.untracked.test_matrix import LIBRARIES, LOSSES, SOURCES, WAYS, command, environment, started  # noqa: E402
from tests.where.test_real_standstills import LINES, Ranks  # noqa: E402

STREAM = (sys.executable, "-m", "gputop", "--virtual", "2", "--stream", "-i", "1")
SCREEN = [sys.executable, "-m", "gputop", "--virtual", "2", "-i", "1"]
APART = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
CURVE = r"[\u2801-\u28ff]{3}"
"""Three cells of a curve in a row."""
DEADLINE_S = 60.0
AFTER_S = 20.0
WANDB_WRITES_S = 35.0
WANDB_EVERY_S = 18.0
"""W&B writes its file every 15 s. On a crowded machine, the training logs late: this counts from its last step."""
READY_S = 300.0
GRACE_S = 5.0
SEEN_S = 15.0
IN_TMUX = "its output in tmux"
COLUMNS = ("run", "ranks", *SOURCES.values(), IN_TMUX, "screen")
CASES = {f"{way} {'in tmux' if tmux else 'by nohup'}": (way, tmux) for tmux in (False, True) for way in WAYS}
"""Case -> how the training is started, and whether in tmux."""
QUICK = ("torchrun by nohup", "plain in tmux")
WHERE = "where"
CULPRITS = {
    "a longer branch": ("branch", "BRANCH"),
    "asleep": ("asleep", "ASLEEP"),
    "C code keeps Python's lock": ("lock", "LOCK"),
    "a slow disk": ("reads", "READS"),
    "stopped by SIGSTOP": ("train", None),
    "different collectives": ("mismatch", "BARRIER"),
}
"""What rank 1 does -> the scene of ``tests/where/standstills.py``, and the mark of the line."""


class Watching:
    """``gputop --stream`` beside a training: when it showed what for the first time."""

    def __init__(self, state: Path) -> None:
        self._began = time.perf_counter()
        self._process = subprocess.Popen(STREAM, stdout=subprocess.PIPE, env={**os.environ, "GPUTOP_DIR": str(state)})
        self._points: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
        self.shown: dict[str, float] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)

    def until(self, way: str, pids: set[int], sources: set[str]) -> dict[str, float]:
        """Return after how many seconds each was shown: "run", "ranks", and the sources; what is missing never was."""
        self._way, self._pids = way, pids
        wanted = {"run", "ranks", *sources}
        self._thread.start()
        while time.perf_counter() - self._began < SEEN_S and not wanted <= self.shown.keys():
            time.sleep(0.02)
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        return self.shown

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            passed_s = time.perf_counter() - self._began
            snapshot = Snapshot.from_json(line)
            for points in snapshot.points:
                self._points[points.run_id, points.metric].update(zip(points.steps, points.values, strict=True))
            for run in snapshot.process_runs:
                if {rank.pid for rank in run.ranks} & self._pids and run.name == f"{self._way}.py":
                    for name in self._shows(run):
                        self.shown.setdefault(name, passed_s)

    def _shows(self, run: ProcessRun) -> Iterator[str]:
        launcher, ranks = WAYS[self._way]
        yield "run"
        if [rank.rank for rank in run.ranks] == ranks and (run.launcher.name if run.launcher else None) == launcher:
            yield "ranks"
        losses: object = LOSSES
        for curve in run.curves:
            for metric in ("loss", "train_loss"):
                if self._points.get((curve.run_id, metric)) == losses:
                    yield curve.source


def shown_after_s(wanted: dict[str, str], environment: dict[str, str]) -> dict[str, float]:
    """Start gputop and return after how many seconds the screen shows each of the patterns; what is missing never was."""
    began = time.perf_counter()
    found: dict[str, float] = {}
    with Terminal(SCREEN, environment) as terminal:
        while len(found) < len(wanted):
            text, passed_s = terminal.text(), time.perf_counter() - began
            found |= {name: passed_s for name, pattern in wanted.items() if name not in found and re.search(pattern, text)}
            if passed_s > DEADLINE_S:
                missing = ", ".join(name for name in wanted if name not in found)
                print(f"gputop's screen did not show within {DEADLINE_S:g} s: {missing}\n{text}", flush=True)
                break
            time.sleep(0.005)
    return found


@contextlib.contextmanager
def training(way: str, folder: Path, tmux: bool) -> Iterator[None]:
    """Start a training in its folder and wait until it has recorded its steps and is old enough."""
    began = time.monotonic()
    busy = environment(folder) | {"TEST_RESTS_S": "0"}
    words = command(way, folder / way, ("output",) if tmux else tuple(SOURCES))
    if tmux:
        server = ("tmux", "-f", "/dev/null", "-S", f"{folder}/s")
        begin = (*server, "new-session", "-d", "-c", str(folder / way), "-x", "90", "-y", "20", shlex.join(words))
        subprocess.run(begin, check=True, env=busy)
    else:
        line = f"nohup {shlex.join(words)} > nohup.out 2>&1 < /dev/null &"
        subprocess.run(["sh", "-c", line], cwd=folder / way, env=busy, check=True)
    try:
        while not (folder / way / "ready").exists():
            waited_s = time.monotonic() - began
            if waited_s > READY_S or (waited_s > GRACE_S and not started(folder)):
                output = folder / way / "nohup.out"
                raise SystemExit(f"The training by {way} did not begin:\n{output.read_text() if output.exists() else ''}")
            time.sleep(0.05)
        ready = time.monotonic()
        time.sleep(max(began + AFTER_S - ready, 0.0) if tmux else max(began + WANDB_WRITES_S - ready, WANDB_EVERY_S))
        yield
    finally:
        if tmux:
            subprocess.run((*server, "kill-server"), check=False)
        for pid in started(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def shown(way: str, tmux: bool, state: Path) -> dict[str, float]:
    """Return after how many seconds gputop shows a training started this way, its ranks and its curves."""
    sources = {IN_TMUX} if tmux else set(SOURCES.values())
    best = IN_TMUX if tmux else SOURCES["tensorboard"]
    with tempfile.TemporaryDirectory(dir="/tmp") as name, training(way, Path(name), tmux):  # a socket's path must be short
        found = Watching(state).until(way, started(Path(name)), sources)
        screen = shown_after_s({"source": f"not tracked, from {re.escape(best)}", "curve": CURVE}, {"GPUTOP_DIR": str(state)})
        return {**found, **({"screen": max(screen.values())} if len(screen) == 2 else {})}


def asked(state: Path, run_id: str | None) -> tuple[dict[str, Any], float]:
    """Return the answer of ``gputop where``, and how long the command took."""
    words = [sys.executable, "-m", "gputop", "where", "--json", *([run_id] if run_id is not None else [])]
    began = time.perf_counter()
    done = subprocess.run(words, env=clean_environment(state), capture_output=True, check=False)
    return json.loads(done.stdout), time.perf_counter() - began


def culprits(folder: Path) -> dict[str, float | None]:
    """Return for each way to stand still how long the question took whose answer names rank 1 and its line; None: never."""
    home = Home(folder / "state")
    ranks = Ranks(home, folder, forked=False)
    found: dict[str, float | None] = {}
    try:
        for name, (scene, mark) in CULPRITS.items():
            ranks.scene(scene)
            held = os.open(folder / "fifo", os.O_RDWR) if scene == "reads" else None
            stopped = ranks.pid(1) if mark is None else None
            if stopped is not None:
                os.kill(stopped, signal.SIGSTOP)
            found[name] = _named(home.state, functools.partial(_is_at, mark))
            if stopped is not None:
                os.kill(stopped, signal.SIGCONT)
            if scene == "lock":
                (folder / "fifo").write_text("x")
            if scene != "mismatch":
                ranks.scene("train")
            if held is not None:
                os.close(held)
    finally:
        ranks.close()
    second = folder / "second"
    second.mkdir()
    home = Home(second / "state")
    ranks = Ranks(home, second, forked=False)
    try:
        run_id = home.only_run().run_id
        ranks.scene("exits")
        home.started[-1].wait(READY_S)
        found["has exited"] = _named(home.state, lambda place: place["exit_code"] == 7, run_id)
    finally:
        ranks.close()
    return found


def _is_at(mark: str | None, place: dict[str, Any]) -> bool:
    return bool(place["state"] == "stopped" if mark is None else place["line"] == LINES[mark])


def _named(state: Path, holds: Callable[[dict[str, Any]], bool], run_id: str | None = None) -> float | None:
    until = time.monotonic() + SEEN_S
    while time.monotonic() < until:
        answer, took_s = asked(state, run_id)
        if (run_id or 1 in answer["behind"]) and holds(next(place for place in answer["ranks"] if place["rank"] == 1)):
            return took_s
    return None


def main() -> None:
    """Print the tables, and write them as JSON if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="torchrun with nohup and python in tmux, and where")
    parser.add_argument("--only", action="append", metavar="CASE", choices=(WHERE, *CASES), help="this case; may be repeated")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.apart and subprocess.run((*APART, "true"), capture_output=True, check=False).returncode == 0:
        os.execvp(APART[0], (*APART, sys.executable, __file__, *sys.argv[1:], "--apart"))
    missing = [name for name in LIBRARIES.values() if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit(f"The trainings need {', '.join(missing)}: make bench installs them.")
    chosen = options.only or ([WHERE, *QUICK] if options.quick else [WHERE, *CASES])
    with tempfile.TemporaryDirectory() as name:
        asked_s = _print_asked(culprits(Path(name))) if WHERE in chosen else {}
        state = Path(name) / "state2"
        subprocess.run((*STREAM, "-n", "2"), env={**os.environ, "GPUTOP_DIR": str(state)}, stdout=subprocess.DEVNULL)
        rows = _print_shown({case: CASES[case] for case in CASES if case in chosen}, state)
    if options.json:
        options.json.write_text(json.dumps({"load": os.getloadavg()[0], "shown_s": rows, "where_s": asked_s}, indent=1) + "\n")
    never = [what for what, took_s in asked_s.items() if took_s is None]
    never += [f"{case}: {name}" for case, seen in rows.items() for name in _expected(CASES[case][1]) if name not in seen]
    if never:
        raise SystemExit(f"Never seen: {'; '.join(never)}")


def _print_asked(asked_s: dict[str, float | None]) -> dict[str, float | None]:
    print("seconds until gputop where names the rank that the other one waits for, and its line")
    for what, took_s in asked_s.items():
        print(f"{what:30}{_told(took_s):>6}", flush=True)
    return asked_s


def _print_shown(cases: dict[str, tuple[str, bool]], state: Path) -> dict[str, dict[str, float]]:
    """Run the cases, print a line for each as soon as it has ended, and return what each showed after how many seconds."""
    heads = ("run", "ranks", "TensorBd", "W&B", "CSV", "Trainer", "output", "tmux", "screen", "load")
    print("\nseconds until gputop shows a training that it did not start")
    print(f"{'started by':18}" + "".join(f"{head:>9}" for head in heads), flush=True)
    rows: dict[str, dict[str, float]] = {}
    for case, (way, tmux) in cases.items():
        seen = rows[case] = shown(way, tmux, state)
        told = [_told(seen.get(column)) for column in COLUMNS] + [f"{os.getloadavg()[0]:.1f}"]
        print(f"{case:18}" + "".join(f"{text:>9}" for text in told), flush=True)
    return rows


def _expected(tmux: bool) -> tuple[str, ...]:
    sources = (IN_TMUX,) if tmux else tuple(SOURCES.values())
    return "run", "ranks", *sources, "screen"


def _told(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f}"


if __name__ == "__main__":
    with ended_by_signals():
        main()
