"""What it costs gputop to look at a training from outside: its stack, what its code holds, and the network of this machine.

A training on the CPU runs beside it, with a small model or with many layers; it does not take part. A look while the stack
changes is torn, and does not count. The network is read with the connections of that process. Its figures are gputop's CPU
time, in milliseconds.

    python benchmarks/outside.py [--looks 40] [--layers 2 100]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common.ending import ended_by_signals

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gputop.sources.network.watch import NetworkReader  # noqa: E402 - from the checkout
from gputop.sources.python_stacks.reader import StackReader  # noqa: E402
from gputop.whereabouts.activities import is_library  # noqa: E402

TRAINING = """
import sys
import torch

def train(model, loader, optimizer):
    print("ready", flush=True)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()

torch.set_num_threads(1)
model = torch.nn.Sequential()
for _ in range(int(sys.argv[1])):
    model.extend([torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU()])
data = torch.utils.data.TensorDataset(torch.randn(4096, 64), torch.randn(4096, 64))
train(model, torch.utils.data.DataLoader(data, batch_size=64), torch.optim.Adam(model.parameters()))
"""
PAUSE_S = 0.05
"""Between two looks, so that each finds another place in a step."""


def timed(look: Callable[[], object], looks: int) -> tuple[list[float], int]:
    """Return the CPU time of each look that found something, in milliseconds, and how many found nothing."""
    took: list[float] = []
    torn = 0
    while len(took) < looks and torn < 10 * looks:
        began = time.process_time()
        found = look()
        if found is None:
            torn += 1
        else:
            took.append(1e3 * (time.process_time() - began))
        time.sleep(PAUSE_S)
    return took, torn


def show(what: str, look: Callable[[], object], looks: int) -> None:
    """Print how long the first look took, and the median and the longest of the others."""
    took, torn = timed(look, looks)
    if len(took) < 2:
        print(f"  {what:10} N/A: {torn} looks found nothing")
        return
    first, *others = took
    print(f"  {what:10} first {first:5.1f} ms, then {statistics.median(others):5.2f} (at most {max(others):.2f}); {torn} torn")


def watch(pid: int, looks: int) -> None:
    """Look at a training."""
    reader, network = StackReader(pid), NetworkReader()
    show("stack", reader.read, looks)
    show("variables", lambda: reader.read_holdings(lambda path: not is_library(path)), looks)
    show("network", lambda: network.read((pid,), time.monotonic()), looks)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--looks", type=int, default=40, help="how many of each count (default: 40)")
    parser.add_argument("--layers", nargs="+", type=int, default=(2, 100), help="sizes of the model (default: 2 and 100)")
    options = parser.parse_args()
    environment = {**os.environ, "GPUTOP": "0", "OMP_NUM_THREADS": "1"}  # untracked, so that it must be read from outside
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"  # only variables of the user's own files are looked at
        script.write_text(TRAINING)
        for layers in options.layers:
            with subprocess.Popen(
                [sys.executable, str(script), str(layers)], env=environment, stdout=subprocess.PIPE
            ) as training:
                try:
                    assert training.stdout is not None
                    training.stdout.readline()
                    print(f"a training of {3 * layers} layers, CPU time of one look")
                    watch(training.pid, options.looks)
                finally:
                    training.kill()


if __name__ == "__main__":
    with ended_by_signals():
        main()
