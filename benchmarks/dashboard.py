"""What watching costs: gputop against nvitop, on the same simulated eight (or sixteen) H100s, in one run.

nvtop, and btop from version 1.3 on, are measured too if they are installed; ``NVTOP`` and ``BTOP`` may name their commands.

Measures whole process trees over the same time: CPU seconds, bytes to the terminal, memory (PSS), NVML calls; also how long it
takes from the start until GPU data is on the screen, and for one reading on standard output. All tools start with compiled
modules, as an installer leaves them, whatever the state of this checkout or environment. The simulated driver answers in a
microsecond, so these are the tools' own costs; with ``--latencies real``, it takes as long as that of a measured H100. With
``--hardware``, all tools read this machine's own GPUs instead, and NVML calls are not counted. The figures are this machine's;
the ratios hold elsewhere too.

    python benchmarks/dashboard.py [--gpus 8 | --hardware] [--seconds 30] [--latencies none|real] [--json FILE]
                                   [--page docs/costs.md]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from common.ending import ended_by_signals
from common.page import put

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import nvml_sim  # noqa: E402 - from the checkout
from tests.terminal import Terminal  # noqa: E402


@dataclass(frozen=True, slots=True)
class Tool:
    """A program to measure: its screen, the pattern of a GPU's memory on it, and the command for one reading, if it has one."""

    name: str
    screen: Sequence[str]
    wanted: str
    once: Sequence[str] | None


def tools() -> list[Tool]:
    """Return the peers that are installed, and gputop, each reading once a second. Each first shows a GPU's used memory."""
    found = []
    if (nvtop := shutil.which(os.environ.get("NVTOP", "nvtop"))) is not None:
        found.append(Tool("nvtop", (nvtop, "--delay", "10"), r"\d\.\d+Gi/\d+", (nvtop, "-s")))
    if (btop := shutil.which(os.environ.get("BTOP", "btop"))) is not None:
        found.append(Tool("btop", (btop,), r"gpu0(.|\n)*\d GiB", None))
    nvitop, gputop = (sys.executable, "-m", "nvitop"), (sys.executable, "-m", "gputop")
    return [
        *found,
        Tool("nvitop", (*nvitop, "--interval", "1"), r"\d[GM]iB / \d+", (*nvitop, "-1")),
        Tool("gputop", (*gputop, "-i", "1"), r"\d/\d+G", (*gputop, "--once")),
    ]


BTOP_SETTINGS = 'shown_boxes = "gpu0 gpu1 proc"\nupdate_ms = 1000\n'
"""btop shows few GPUs at once, each in a box of its own; with the processes, two fit into the terminal."""
BTOP_WITH_GPUS = (1, 3)
"""The first version that shows GPUs."""
FIGURES = {
    "cpu_s_per_min": ("CPU, s/min", 2),
    "bytes_per_s": ("to the terminal, bytes/s", 0),
    "pss_mib": ("memory (PSS), MiB", 0),
    "nvml_calls_per_gpu_and_s": ("NVML calls per GPU and s", 1),
    "first_gpu_data_ms": ("start to first GPU data, ms", 0),
    "once_ms": ("one reading on standard output, ms", 0),
}
"""What is measured: its name in the table, and its decimals there."""
IDLE = (sys.executable, "-c", "import time; time.sleep(3600)")
"""What uses each GPU. It prints nowhere: of a file that held the figures, gputop would follow every line for each of them."""
SETTLE_S = 5.0
ROUNDS = 5


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """Return user and system time of the processes."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def pss_mib(processes: list[psutil.Process]) -> float:
    """Return the proportional memory of the processes."""
    return sum(process.memory_full_info().pss for process in processes) / 2**20


def first_data_s(command: Sequence[str], wanted: str, environment: dict[str, str]) -> float:
    """Return the time from the start until the screen shows a GPU's memory."""
    began = time.perf_counter()
    with Terminal(command, environment) as terminal:
        while not re.search(wanted, text := terminal.text()):
            if time.perf_counter() - began > 20:
                raise SystemExit(f"{command[0]} showed no GPU within 20 s:\n{text}")
            time.sleep(0.002)
        return time.perf_counter() - began


def live(
    command: Sequence[str], environment: dict[str, str], log: Path, gpus: int | None, seconds: float
) -> dict[str, float | None]:
    """Run a screen and measure it for ``seconds`` after it has settled. Only simulated ``gpus`` count calls of NVML."""
    with Terminal(command, environment) as terminal:
        time.sleep(SETTLE_S)
        processes = tree(terminal.process.pid)
        cpu, received, calls = cpu_seconds(processes), len(terminal.received), count_lines(log)
        time.sleep(seconds)
        return {
            "cpu_s_per_min": (cpu_seconds(processes) - cpu) * 60 / seconds,
            "bytes_per_s": (len(terminal.received) - received) / seconds,
            "pss_mib": pss_mib(processes),
            "nvml_calls_per_gpu_and_s": (count_lines(log) - calls) / gpus / seconds if gpus else None,
        }


def count_lines(path: Path) -> int:
    """Return how many lines a file has; 0 if it does not exist."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def once_s(command: Sequence[str] | None, environment: dict[str, str]) -> float:
    """Return how long one reading takes; 0 without a command for it."""
    if command is None:
        return 0.0
    began = time.perf_counter()
    subprocess.run(command, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure(measured: Sequence[Tool], gpus: int | None, seconds: float, latencies: str) -> dict[str, dict[str, float | None]]:
    """Measure every tool on the same machine, in turn.

    It has as many simulated ``gpus``, whose driver's ``latencies`` are "none" or "real"; None: its own GPUs.
    """
    result: dict[str, dict[str, float | None]] = {}
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        (folder / "config" / "btop").mkdir(parents=True)
        (folder / "config" / "btop" / "btop.conf").write_text(BTOP_SETTINGS)
        workers = [subprocess.Popen(IDLE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(gpus or 0)]
        try:
            environments: dict[Tool, dict[str, str]] = {tool: {} for tool in measured}
            if gpus is not None:
                box = nvml_sim.living_box(gpus, pids=tuple(worker.pid for worker in workers))
                scenario = (box.real_latencies() if latencies == "real" else box).write(folder / "scenario")
                for tool in measured:
                    changed = nvml_sim.environment(scenario, log=folder / f"{tool.name}.log")
                    environments[tool] = {key: value for key, value in changed.items() if os.environ.get(key) != value}
            for tool in measured:
                environments[tool] |= {"GPUTOP_DIR": directory, "XDG_CONFIG_HOME": str(folder / "config")}
                environments[tool] |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
            for tool in measured:  # compiles, including what the screen imports later
                first_data_s(tool.screen, tool.wanted, environments[tool])
                live(tool.screen, environments[tool], folder / f"{tool.name}.log", gpus, SETTLE_S)
                once_s(tool.once, environments[tool])
            starts: dict[Tool, list[float]] = {tool: [] for tool in measured}
            onces: dict[Tool, list[float]] = {tool: [] for tool in measured}
            for _ in range(ROUNDS):
                for tool in measured:
                    starts[tool].append(first_data_s(tool.screen, tool.wanted, environments[tool]))
                    onces[tool].append(once_s(tool.once, environments[tool]))
            for tool in measured:
                result[tool.name] = {
                    **live(tool.screen, environments[tool], folder / f"{tool.name}.log", gpus, seconds),
                    "first_gpu_data_ms": 1000 * statistics.median(starts[tool]),
                    "once_ms": 1000 * statistics.median(onces[tool]) if tool.once is not None else None,
                }
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    return result


def ratio(result: Mapping[str, Mapping[str, float | None]], figure: str) -> str:
    """Return gputop's figure as a multiple of nvitop's."""
    ours, theirs = result["gputop"][figure], result["nvitop"][figure]
    return "N/A" if ours is None or not theirs else f"{ours / theirs:.2f}"


def shown(value: float | None, decimals: int) -> str:
    """Return a figure for a table."""
    return "N/A" if value is None else f"{value:,.{decimals}f}"


def version(tool: Tool) -> str:
    """Return the version that a tool reports."""
    command = (*tool.screen[: 3 if tool.screen[0] == sys.executable else 1], "--version")
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+[\w.]*", told.stdout + told.stderr)
    return found[0] if found else "unknown version"


def shows_gpus(tool: Tool) -> bool:
    """Return whether a tool's version shows GPUs, and say so if not."""
    if tool.name != "btop" or tuple(map(int, re.findall(r"\d+", version(tool))[:2])) >= BTOP_WITH_GPUS:
        return True
    print(f"btop {version(tool)} shows no GPUs: not measured", file=sys.stderr)
    return False


def main() -> None:
    """Print the table, and write it as JSON and into a page if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--hardware", action="store_true", help="read this machine's own GPUs instead of simulated ones")
    parser.add_argument("--latencies", choices=("none", "real"), default="none")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, metavar="FILE", help="also put the table into this page, between its marks")
    options = parser.parse_args()
    measured = [tool for tool in tools() if shows_gpus(tool)]
    result = measure(measured, None if options.hardware else options.gpus, options.seconds, options.latencies)
    machine = "this machine's GPUs" if options.hardware else f"{options.gpus} simulated H100s, a process on each"
    conditions = f"{machine}, 160x50, 1 Hz, {options.seconds:g} s"
    print(f"{conditions}; load {os.getloadavg()[0]:.1f}")
    print(f"{'':36}" + "".join(f"{name:>12}" for name in result) + f"{'ratio':>10}")
    for figure, (words, decimals) in FIGURES.items():
        values = [shown(figures[figure], decimals) for figures in result.values()]
        print(f"{words:36}" + "".join(f"{value:>12}" for value in values) + f"{ratio(result, figure):>10}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.page:
        rows = [["", *(f"{tool.name} {version(tool)}" for tool in measured), "gputop / nvitop"]]
        rows.append(["---", *["---:"] * (len(measured) + 1)])
        for figure, (words, decimals) in FIGURES.items():
            values = [shown(figures[figure], decimals) for figures in result.values()]
            rows.append([words, *values, ratio(result, figure)])
        table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        put(options.page, "benchmarks/dashboard.py", f"{conditions}:\n\n{table}")


if __name__ == "__main__":
    with ended_by_signals():
        main()
