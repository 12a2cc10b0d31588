"""What automatic tracking adds to a training step: a tracked and an untracked process train in turn.

Run: ``python benchmarks/autolog.py [--device cuda] [--loop ddp] [--layers N…] [--width N] [--json] [--quick]``; it needs torch
and this checkout. Both processes run the same loop; the untracked one never imports gputop. They take turns of 100 steps, so
that whatever else the machine does affects both equally, and the first steps of a turn do not count. One process differs from
the next by some microseconds, so there are several pairs. Different numbers of layers show that the added time does not grow
with the model.

On the CPU, the figures are the CPU time of the training's thread, and of the whole process for a turn. With ``--device cuda``
they are times by the clock: the host's time for a step shows what tracking adds on the CPU. Each turn ends with a wait for the
GPU, and the total time of the turn shows whether that slows the training down. Layers of 8,192 make steps of several
milliseconds, in which the GPU is what the host waits for.

A second line says what a step adds that takes the fast path, and what one adds that is measured in full. The last figure is
what both add to a step of 5 ms, of which one in 32 is measured in full (``pace.full_share``). The share of time that goes
into the doctor's facts, collected every few seconds, is no part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from common.ending import ended_by_signals

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from gputop.tracking.auto.training.pace import full_share  # noqa: E402 - from the checkout

LOOPS = ("plain", "accumulation", "ddp", "scaler", "losses", "optimizers", "own")
STEP_S = 0.005
TURN, SKIPPED = 100, 10
"""Steps of a turn, and how many of its first ones find the caches full of the other process, or follow a pause, after which
gputop measures some in full."""
WARM_UP = 200
"""Steps before the first turn that counts: the first ones are all measured in full."""
LOOP = """
import json, sys, time
import torch

tracked, layers, device, kind, width = sys.argv[1] == "tracked", int(sys.argv[2]), *sys.argv[3:5], int(sys.argv[5])
looks, mode_now = [], lambda: "off"
# On the CPU, the CPU time of the training's thread: other work on the machine changes it less than the time by the clock.
clock, all_clock = (time.perf_counter,) * 2 if device == "cuda" else (time.thread_time, time.process_time)
if tracked:
    import gputop
    from gputop.tracking.auto.facts import Facts

    def timed_due(self, step, due=Facts.due):
        started = clock()
        due(self, step)
        looks.append(clock() - started)

    Facts.due = timed_due
torch.set_num_threads(1)
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
own = gputop.init(name="own") if tracked and kind == "own" else None
model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)]).to(device)
if kind == "ddp":
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(model)
scaler = torch.amp.GradScaler(device, init_scale=256.0, enabled=kind == "scaler")
weights = list(model.parameters())
halves = (weights[::2], weights[1::2]) if kind == "optimizers" else (weights,)
optimizers = [torch.optim.SGD(half, lr=0.001) for half in halves]
data = torch.utils.data.TensorDataset(torch.randn(32_000, width), torch.randn(32_000, width))
loader = torch.utils.data.DataLoader(data, batch_size=16, pin_memory=device == "cuda")


def step(inputs, targets):
    if device == "cuda":
        inputs, targets = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
    for optimizer in optimizers:
        optimizer.zero_grad()
    if kind == "accumulation":
        for part in range(2):
            loss = torch.nn.functional.mse_loss(model(inputs[part::2]), targets[part::2])
            (loss / 2).backward()
    elif kind == "ddp":
        with model.no_sync():
            loss = torch.nn.functional.mse_loss(model(inputs[::2]), targets[::2])
            (loss / 2).backward()
        loss = torch.nn.functional.mse_loss(model(inputs[1::2]), targets[1::2])
        (loss / 2).backward()
    else:
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        if kind == "scaler":
            loss = scaler.scale(loss)
        loss.backward()
        if kind == "losses":
            more = model(inputs).abs().mean()
            more.backward()
    if kind == "scaler":
        scaler.step(optimizers[0])
        scaler.update()
    else:
        for optimizer in optimizers:
            optimizer.step()
    if own is not None:
        own.log(train_loss=loss.item())
    elif device == "cpu":
        loss.item()


def batches():
    while True:
        yield from loader


source, training = batches(), None
for line in sys.stdin:
    times, began = [], all_clock()
    for _ in range(int(line)):
        started = clock()
        inputs, targets = next(source)
        mode = training.fast.mode if training is not None else "off"
        step(inputs, targets)
        times.append((clock() - started, mode))
    wait()
    print(json.dumps({"times": times, "span": all_clock() - began, "looks": sum(looks)}), flush=True)
    if tracked:
        training = sys.modules["gputop.tracking.auto.install"].tracked().training
"""


class Process:
    """A training that takes ``steps`` when asked."""

    def __init__(self, directory: Path, how: str, layers: int, device: str, kind: str, width: int) -> None:
        path = directory / "loop.py"
        path.write_text(LOOP, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "GPUTOP_DIR": str(directory / "state"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(path), how, str(layers), device, kind, str(width)]
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def take(self, steps: int) -> dict[str, Any]:
        """Train for ``steps`` steps; return the time of each with the mode that it was measured in, and that of all."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        """End the training."""
        self._process.communicate()


@contextmanager
def pair(layers: int, device: str, kind: str, width: int) -> Iterator[tuple[Process, Process]]:
    """Start an untracked and a tracked process; end them afterwards."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        processes = [Process(Path(name), how, layers, device, kind, width) for how in ("bare", "tracked")]
        for process in processes:
            stack.callback(process.close)
        yield processes[0], processes[1]


def middle(values: Sequence[float]) -> float:
    """Return the mean without the lowest and the highest tenth: what interrupts a step is no part of it."""
    ordered, cut = sorted(values), len(values) // 10
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def compare(layers: int, device: str, kind: str, width: int, turns: int) -> dict[str, float]:
    """Return for one pair: the step without tracking, and what tracking adds to one, in microseconds."""
    times: dict[str, list[float]] = {"off": [], "fast": [], "full": []}
    added, spans, looks = [], [], 0.0
    with pair(layers, device, kind, width) as processes:
        looks_before = [process.take(WARM_UP)["looks"] for process in processes][1]
        for _ in range(turns):
            bare, tracked = (process.take(TURN) for process in processes)
            for found in (bare, tracked):
                for took, mode in found["times"][SKIPPED:]:
                    times.setdefault(mode, []).append(took * 1e6)
            means = [statistics.fmean(took for took, _ in found["times"][SKIPPED:]) * 1e6 for found in (bare, tracked)]
            added.append(means[1] - means[0])
            spans.append((tracked["span"] - bare["span"]) / TURN * 1e6)
            looks = tracked["looks"] - looks_before
    step_us = middle(times["off"])
    fast = middle(times["fast"]) - step_us if times["fast"] else float("nan")
    full = middle(times["full"]) - step_us if times["full"] else float("nan")
    share = full_share(STEP_S) / 2**32
    return {
        "step_us": step_us,
        "added_us": middle(added),
        "fast_added_us": fast,
        "full_added_us": full,
        "full_percent": 100 * len(times["full"]) / max(1, len(times["fast"]) + len(times["full"])),
        "added_of_5_ms_us": fast + share * (full - fast),
        "added_until_done_us": middle(spans),
        "looks_percent": 100 * looks / ((step_us + middle(added)) * 1e-6 * turns * TURN),
    }


def measure(quick: bool, device: str, kind: str, numbers: Sequence[int], width: int) -> dict[str, dict[str, float]]:
    """Return for each number of layers the median of several pairs, and how far the pairs lie apart."""
    pairs, turns = (3, 12) if quick else (7, 60)
    result = {}
    for layers in numbers:
        found = [compare(layers, device, kind, width, turns) for _ in range(pairs)]
        row = {name: statistics.median(one[name] for one in found) for name in found[0]}
        whole = [one["added_of_5_ms_us"] for one in found]
        result[f"{layers} layers"] = row | {"lowest_of_5_ms_us": min(whole), "highest_of_5_ms_us": max(whole)}
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the model is (default: cpu)")
    parser.add_argument(
        "--loop",
        choices=LOOPS,
        default="plain",
        help="one loss; two accumulated ones; the same under DDP; a GradScaler; two losses; two optimizers; a run that the "
        "script opens and logs to (default: plain)",
    )
    parser.add_argument("--layers", nargs="+", type=int, default=(2, 40), help="numbers of layers (default: 2 and 40)")
    parser.add_argument("--width", type=int, default=16, help="inputs and outputs of each layer (default: 16)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="few rounds, to check that it works")
    options = parser.parse_args()
    found = measure(options.quick, options.device, options.loop, options.layers, options.width)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"a real torch step on the {options.device} ({options.loop}), untracked and tracked in turn: mean microseconds")
    whole = "in the whole process" if options.device == "cpu" else "until the device is done"
    for name, row in found.items():
        print(
            f"  {name:10}  without {row['step_us']:7.1f}  added {row['added_us']:+6.1f}; {whole}"
            f" {row['added_until_done_us']:+6.1f}; {row['looks_percent']:.3f} % for looks"
        )
        print(
            f"  {'':10}  fast steps {row['fast_added_us']:+.1f}, full steps {row['full_added_us']:+.1f}"
            f" ({row['full_percent']:.1f} % of the steps)"
        )
        print(
            f"  {'':10}  a step of 5 ms: {row['added_of_5_ms_us']:+.1f} = {row['added_of_5_ms_us'] / STEP_S / 1e4:.2f} %"
            f" (pairs: {row['lowest_of_5_ms_us']:+.1f} to {row['highest_of_5_ms_us']:+.1f})"
        )


if __name__ == "__main__":
    with ended_by_signals():
        main()
