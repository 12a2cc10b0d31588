"""What watching costs: gputop against nvitop, on the same simulated eight (or sixteen) H100s, in one run.

nvtop is measured too if it is installed; ``NVTOP`` may name its command.

Measures whole process trees over the same time: CPU seconds, bytes to the terminal, memory (PSS), NVML calls; also how long it
takes from the start until GPU data is on the screen, and for one reading on standard output. All tools start with compiled
modules, as an installer leaves them, whatever the state of this checkout or environment. The simulated driver answers in a
microsecond, so these are the tools' own costs; with ``--latencies real``, it takes as long as that of a measured H100. The
figures are this machine's; the ratios hold elsewhere too.

    python benchmarks/dashboard.py [--gpus 8] [--seconds 30] [--latencies none|real] [--json FILE]
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
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import nvml_sim  # noqa: E402 - from the checkout
from tests.terminal import Terminal  # noqa: E402

BIN = Path(sys.executable).parent
TOOLS = {
    "nvitop": ([str(BIN / "nvitop"), "--interval", "1"], r"\d\.\d+GiB / 80\.0", [str(BIN / "nvitop"), "-1"]),
    "gputop": ([sys.executable, "-m", "gputop", "-i", "1"], r"\d\.\d/80G", [sys.executable, "-m", "gputop", "--once"]),
}
"""For each tool: the live screen, the pattern of a GPU's memory on it, and the command for one reading."""
if (nvtop := shutil.which(os.environ.get("NVTOP", "nvtop"))) is not None:
    TOOLS = {"nvtop": ([nvtop, "--delay", "10"], r"\d\.\d+Gi/80", [nvtop, "-s"]), **TOOLS}
    """One second, as for the others; the ratio compares gputop with nvitop."""
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


def first_data_s(command: list[str], wanted: str, environment: dict[str, str]) -> float:
    """Return the time from the start until the screen shows a GPU's memory."""
    began = time.perf_counter()
    with Terminal(command, environment) as terminal:
        while not re.search(wanted, text := terminal.text()):
            if time.perf_counter() - began > 20:
                raise SystemExit(f"{command[0]} showed no GPU within 20 s:\n{text}")
            time.sleep(0.002)
        return time.perf_counter() - began


def live(command: list[str], environment: dict[str, str], log: Path, gpus: int, seconds: float) -> dict[str, float]:
    """Run a screen and measure it for ``seconds`` after it has settled."""
    with Terminal(command, environment) as terminal:
        time.sleep(SETTLE_S)
        processes = tree(terminal.process.pid)
        cpu, received, calls = cpu_seconds(processes), len(terminal.received), count_lines(log)
        time.sleep(seconds)
        return {
            "cpu_s_per_min": (cpu_seconds(processes) - cpu) * 60 / seconds,
            "bytes_per_s": (len(terminal.received) - received) / seconds,
            "pss_mib": pss_mib(processes),
            "nvml_calls_per_gpu_and_s": (count_lines(log) - calls) / gpus / seconds,
        }


def count_lines(path: Path) -> int:
    """Return how many lines a file has; 0 if it does not exist."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def once_s(command: list[str], environment: dict[str, str]) -> float:
    """Return how long one reading takes."""
    began = time.perf_counter()
    subprocess.run(command, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure(gpus: int, seconds: float, latencies: str) -> dict[str, dict[str, float]]:
    """Measure every tool on the same simulated machine, in turn; ``latencies`` of the driver are "none" or "real"."""
    result: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        workers = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) for _ in range(gpus)]
        try:
            box = nvml_sim.living_box(gpus, pids=tuple(worker.pid for worker in workers))
            scenario = (box.real_latencies() if latencies == "real" else box).write(folder / "scenario")
            environments = {}
            for name in TOOLS:
                changed = nvml_sim.environment(scenario, log=folder / f"{name}.log")
                environments[name] = {key: value for key, value in changed.items() if os.environ.get(key) != value}
                environments[name]["GPUTOP_DIR"] = directory
                environments[name] |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
            for name, (screen, wanted, once) in TOOLS.items():  # compiles, including what the screen imports later
                first_data_s(screen, wanted, environments[name])
                live(screen, environments[name], folder / f"{name}.log", gpus, SETTLE_S)
                once_s(once, environments[name])
            starts: dict[str, list[float]] = {name: [] for name in TOOLS}
            onces: dict[str, list[float]] = {name: [] for name in TOOLS}
            for _ in range(ROUNDS):
                for name, (screen, wanted, once) in TOOLS.items():
                    starts[name].append(first_data_s(screen, wanted, environments[name]))
                    onces[name].append(once_s(once, environments[name]))
            for name, (screen, _, _) in TOOLS.items():
                figures = live(screen, environments[name], folder / f"{name}.log", gpus, seconds)
                figures["first_gpu_data_ms"] = 1000 * statistics.median(starts[name])
                figures["once_ms"] = 1000 * statistics.median(onces[name])
                result[name] = figures
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    return result


def main() -> None:
    """Print the table, and write it as JSON if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--latencies", choices=("none", "real"), default="none")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = measure(options.gpus, options.seconds, options.latencies)
    print(
        f"{options.gpus} simulated H100s, a process on each, 160x50, 1 Hz, {options.seconds:g} s; load {os.getloadavg()[0]:.1f}"
    )
    names = list(TOOLS)
    print(f"{'':28}" + "".join(f"{name:>12}" for name in names) + f"{'ratio':>10}")
    for figure in result[names[0]]:
        values = [result[name][figure] for name in names]
        print(f"{figure:28}" + "".join(f"{value:12.2f}" for value in values) + f"{values[-1] / values[-2]:10.2f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
