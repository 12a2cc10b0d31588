"""How long gputop takes, from its start, to draw the curve of a training that has run for a while without it.

A real training of 50 steps is recorded by one library at a time (``tests/untracked/records.py``) and then goes on computing.
gputop starts 20 s after it, and the time until its curve is on the screen is compared with the time until the first GPU data
are there on the same machine without a training. W&B writes its file every 15 s, so its training runs longer first. The
processes are in a PID namespace of their own where the system allows that; elsewhere no other training may run meanwhile.

    python benchmarks/untracked_start.py [--rounds 5] [--after 20] [--sources tensorboard,csv] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.terminal import Terminal  # noqa: E402 - from the checkout

GPUTOP = [sys.executable, "-m", "gputop", "--virtual", "2", "-i", "1"]
GPU_DATA = r"v0 +\d+%"
CURVE = r"[\u2801-\u28ff]{3}"
SOURCES = {"tensorboard": "TensorBoard", "wandb": "W&B", "csv": "CSV", "trainer": "Trainer state", "output": "nohup.out"}
"""What the screen names for each of the libraries."""
READY_S = 300.0
WANDB_WRITES_S = 35.0
DEADLINE_S = 60.0
APART = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
_RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "OMP_NUM_THREADS": "1"}
"""A rank counts as a run on a busy machine, too, where it gets little of a core."""
_OF_OTHERS = ("GPUTOP", "TORCHELASTIC_", "WANDB_")


def shown_after_s(wanted: dict[str, str], environment: dict[str, str]) -> dict[str, float]:
    """Start gputop and return after how many seconds the screen shows each of the patterns."""
    began = time.perf_counter()
    found: dict[str, float] = {}
    with Terminal(GPUTOP, environment) as terminal:
        while len(found) < len(wanted):
            text, passed_s = terminal.text(), time.perf_counter() - began
            found |= {name: passed_s for name, pattern in wanted.items() if name not in found and re.search(pattern, text)}
            if passed_s > DEADLINE_S:
                raise SystemExit(f"gputop did not show all of {', '.join(wanted)} within {DEADLINE_S:g} s:\n{text}")
            time.sleep(0.005)
    return found


def started(folder: Path, library: str) -> subprocess.Popen[bytes]:
    """Start a training that a library records, and return it once it has done its steps."""
    script = Path(shutil.copy(ROOT / "tests" / "untracked" / "records.py", folder / "train.py"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)}
    with (folder / "nohup.out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(script), "plain", str(folder), library],
            cwd=folder,
            env=kept | _RANK | {"WANDB_SILENT": "true", "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    until = time.monotonic() + READY_S
    while not (folder / "ready").exists():
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"The training did not begin:\n{(folder / 'nohup.out').read_text()}")
        time.sleep(0.05)
    return process


def measure(library: str, rounds: int, after_s: float, environment: dict[str, str]) -> list[dict[str, float]]:
    """Return what ``shown_after_s`` returns, for each start beside a training that began ``after_s`` seconds before."""
    source = re.escape(SOURCES[library])
    wanted = {"gpu_data": GPU_DATA, "run": "train.py", "source": rf"step 50 · not tracked, from {source}", "curve": CURVE}
    with tempfile.TemporaryDirectory() as name:
        began = time.monotonic()
        training = started(Path(name), library)
        try:
            if library == "wandb":
                after_s = max(after_s, WANDB_WRITES_S)
            time.sleep(max(0.0, began + after_s - time.monotonic()))
            return [shown_after_s(wanted, environment) for _ in range(rounds)]
        finally:
            os.killpg(training.pid, signal.SIGKILL)
            training.wait()


def main() -> None:
    """Print the table, and write it as JSON if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--after", type=float, default=20.0, help="seconds from the start of the training to that of gputop")
    parser.add_argument("--sources", default=",".join(SOURCES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.apart and subprocess.run((*APART, "true"), capture_output=True, check=False).returncode == 0:
        os.execvp(APART[0], (*APART, sys.executable, __file__, *sys.argv[1:], "--apart"))
    with tempfile.TemporaryDirectory() as name:
        environment = {"GPUTOP_DIR": f"{name}/state"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{name}/compiled"}  # as an installer leaves them
        shown_after_s({"gpu_data": GPU_DATA}, environment)
        time.sleep(2.0)  # what the screen imports later is compiled, too
        measure("output", 1, 0.0, environment)
        idle = [shown_after_s({"gpu_data": GPU_DATA}, environment)["gpu_data"] for _ in range(options.rounds)]
        found = {
            library: measure(library, options.rounds, options.after, environment) for library in options.sources.split(",")
        }
    idle_s = statistics.median(idle)
    load = os.getloadavg()[0]
    print(f"gputop's first GPU data without a training: {idle_s:.2f} s; medians of {options.rounds}; load {load:.1f}")
    print(f"{'curve from':16}{'GPU data':>10}{'run':>8}{'source':>8}{'curve':>8}{'longest':>9}{'ratio':>8}")
    for library, rounds in found.items():
        medians = [statistics.median(shown[key] for shown in rounds) for key in ("gpu_data", "run", "source", "curve")]
        longest = max(shown["curve"] for shown in rounds)
        cells = "".join(f"{value:{width}.2f}" for value, width in zip(medians, (10, 8, 8, 8), strict=True))
        print(f"{SOURCES[library]:16}{cells}{longest:9.2f}{medians[-1] / idle_s:8.2f}")
    if options.json:
        options.json.write_text(
            json.dumps({"idle_gpu_data_s": idle, "load": os.getloadavg()[0], "curves": found}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
