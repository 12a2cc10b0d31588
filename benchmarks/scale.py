"""What watching costs at scale: many processes, many GPUs, many live ranks; and how long quitting takes.

Each world is measured together with a small one of eight busy simulated H100s, because the growth is what counts; nvitop
watches the same worlds. The ranks are real processes that log four metrics 100 times per second.

    python benchmarks/scale.py [--worlds small,processes,gpus,ranks] [--seconds 30] [--json FILE]
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
from common.ending import ended_by_signals

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import nvml_sim  # noqa: E402 - from the checkout
from tests.terminal import Terminal  # noqa: E402

NVITOP = Path(sys.executable).parent / "nvitop"
SETTLE_S = 12.0
MIB = 2**20
PROCESSES = """
import os, signal, sys
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if not pid:
        signal.pause()
        os._exit(0)
    print(pid, flush=True)
signal.pause()
"""
RANKS = """
import os, sys, time, gputop
world = int(sys.argv[1])
os.environ["WORLD_SIZE"] = str(world)
os.environ["TORCHELASTIC_RUN_ID"] = "scale"
for rank in range(world):
    if not os.fork():
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        run = gputop.init(name="scale", autolog=False)
        os.write(1, b"%d\\n" % os.getpid())
        for step in range(10**9):
            run.log(loss=2 - step % 100 / 100, lr=3e-4, grad_norm=1.0, tokens_per_s=1e5, step=step)
            time.sleep(0.01)
time.sleep(10**6)
"""


class World(NamedTuple):
    """A machine: its GPUs, the processes on them, and how many of these are logging ranks."""

    gpus: int
    processes: int
    ranks: int = 0


WORLDS = {"small": World(8, 8), "processes": World(8, 496), "gpus": World(64, 64), "ranks": World(8, 64, 64)}


@contextmanager
def living(world: World, folder: Path) -> Iterator[dict[str, str]]:
    """Start the processes of a world, and yield the environment in which a tool sees them on its GPUs."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUTOP_")}
    ours = {"GPUTOP_DIR": str(state), "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    count, code = (world.ranks, RANKS) if world.ranks else (world.processes, PROCESSES)
    workers = subprocess.Popen(
        [sys.executable, "-c", code, str(count)], env=kept | ours, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert workers.stdout is not None
        pids = [int(workers.stdout.readline()) for _ in range(count)]
        box = nvml_sim.living_box(world.gpus, pids=tuple(pids[: world.gpus]))
        for index, pid in enumerate(pids[world.gpus :]):
            box.process(index % world.gpus, pid, 2**27, 1.0)
        yield nvml_sim.environment(box.write(folder / "scenario")) | {"PYTHONDONTWRITEBYTECODE": ""} | ours
    finally:
        os.killpg(workers.pid, 9)
        workers.wait()


def watched(command: list[str], environment: dict[str, str], seconds: float) -> dict[str, float]:
    """Watch a world with a tool for a while, then quit the tool."""
    with Terminal(command, environment) as terminal:
        terminal.wait_for("80", timeout_s=120)
        time.sleep(SETTLE_S)
        top = psutil.Process(terminal.process.pid)
        processes = [top, *top.children(recursive=True)]
        before, received = [sum(process.cpu_times()[:2]) for process in processes], len(terminal.received)
        time.sleep(seconds)
        used = [sum(process.cpu_times()[:2]) - was for process, was in zip(processes, before, strict=True)]
        found = {
            "cpu_s_per_min": sum(used) * 60 / seconds,
            "of_it_the_screen": used[0] * 60 / seconds,
            "bytes_per_s": (len(terminal.received) - received) / seconds,
            "pss_mib": sum(process.memory_full_info().pss for process in processes) / MIB,
        }
        began = time.perf_counter()
        terminal.press("q")
        terminal.wait_exit(60)
        return found | {"quit_ms": 1000 * (time.perf_counter() - began)}


def measure(worlds: list[str], seconds: float, rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return the median of each figure for each world and tool."""
    tools = {"gputop": [sys.executable, "-m", "gputop", "-i", "1"]}
    if NVITOP.exists():
        tools["nvitop"] = [str(NVITOP), "--interval", "1"]
    turns: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(rounds):
        for name in worlds:
            with tempfile.TemporaryDirectory() as folder, living(WORLDS[name], Path(folder)) as environment:
                for tool, command in tools.items():
                    turns.setdefault((name, tool), []).append(watched(command, environment, seconds))
    result: dict[str, dict[str, dict[str, float]]] = {}
    for (name, tool), found in turns.items():
        result.setdefault(name, {})[tool] = {key: statistics.median(one[key] for one in found) for key in found[0]}
    return result


def main() -> None:
    """Print the table, and write it as JSON if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    found = measure(options.worlds.split(","), options.seconds, options.rounds)
    print(f"160x50, 1 Hz, {options.seconds:g} s, median of {options.rounds}; load {os.getloadavg()[0]:.1f}")
    for name, tools in found.items():
        world = WORLDS[name]
        print(f"{name}: {world.gpus} GPUs, {world.processes} processes, {world.ranks} live ranks")
        for tool, figures in tools.items():
            print(f"  {tool:<8}" + "  ".join(f"{key} {value:.1f}" for key, value in figures.items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    with ended_by_signals():
        main()
