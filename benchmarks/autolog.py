"""What automatic tracking adds to a training step: a real torch loop whose steps are alternately tracked and untracked.

Run: ``python benchmarks/autolog.py [--device cuda] [--loop ddp] [--layers N…] [--width N] [--json] [--quick]``; it needs
torch, psutil and this checkout. Untracked steps run the original torch: the wrappers are removed and put back every 20 steps
(400 on a GPU), so that whatever else the machine does affects both equally. Different numbers of layers show that the added
time does not grow with the model. For comparison, it prints what a hot ``log`` of four metrics costs on this machine now, and
the share of time that goes into the doctor's facts, which are collected every few seconds and are not part of the mean.

On the CPU, the figures are the CPU time of the training's thread, and of the whole process for a block. With ``--device cuda``
they are times by the clock: the host's time for a step shows what tracking adds on the CPU. Each block of steps is followed by
a wait for the GPU, and the total time of the block, with the first steps after the switch, shows whether that slows the
training down. Layers of 8,192 make steps of several milliseconds, in which the GPU is what the host waits for. A second line
says what a step adds that takes the fast path, what one adds that is measured in full, and how many are.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _ending import ended_by_signals

ROOT = Path(__file__).parent.parent
LOOPS = ("plain", "accumulation", "ddp", "scaler", "losses", "optimizers", "own")
LOOP = """
import json, sys, time
import torch
import gputop
from gputop.tracking.auto.facts import Facts

torch.set_num_threads(1)
layers, steps, device, kind, width = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
# On the CPU, the CPU time of the training's thread: other work on the machine changes it less than the time by the clock.
clock, all_clock = (time.perf_counter,) * 2 if device == "cuda" else (time.thread_time, time.process_time)
own = gputop.init(name="own") if kind == "own" else None
model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)]).to(device)
if kind == "ddp":
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(model)
scaler = torch.amp.GradScaler(device, init_scale=256.0, enabled=kind == "scaler")
weights = list(model.parameters())
halves = (weights[::2], weights[1::2]) if kind == "optimizers" else (weights,)
optimizers = [torch.optim.SGD(half, lr=0.001) for half in halves]
data = torch.utils.data.TensorDataset(torch.randn(16 * steps, width), torch.randn(16 * steps, width))
loader = torch.utils.data.DataLoader(data, batch_size=16, pin_memory=device == "cuda")
iterator = torch.utils.data.dataloader._BaseDataLoaderIter
hooks = sys.modules["torch.optim.optimizer"]


looks = []


def timed_due(self, step, due=Facts.due):
    started = clock()
    due(self, step)
    looks.append(clock() - started)


Facts.due = timed_due


def places():
    found = [(torch.autograd, "backward"), (iterator, "__next__"), (torch.nn.Sequential, "__call__")]
    found += [(torch.amp.GradScaler, "scale"), (torch.amp.GradScaler, "step")]
    found += [(torch.nn.parallel.DistributedDataParallel, "__call__")] if kind == "ddp" else []
    return [(owner, name, getattr(owner, name)) for owner, name in found]


def switch(on):
    for owner, name, wrapper in wrappers:
        setattr(owner, name, wrapper if on else wrapper.__wrapped__)
    for kept, now in zip(hooked, (hooks._global_optimizer_pre_hooks, hooks._global_optimizer_post_hooks)):
        now.clear()
        now.update(kept if on else {})


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


# Short: a pause of over 50 ms makes the next steps ones that are measured in full. On a GPU, no block is short enough for that,
# so it is long, and these steps do not count.
BLOCK, SKIPPED = (20, 2) if device == "cpu" else (400, 40)
times, blocks, spans = {True: [], False: []}, {True: [], False: []}, {True: [], False: []}
kinds = {"off": [], "fast": [], "full": []}
training = sys.modules["gputop.tracking.auto.install"].tracked().training
block_began = 0.0
wrappers, on, number = None, True, 0
batches = iter(loader)
began = clock()
while True:
    started = clock()
    try:
        inputs, targets = next(batches)
    except StopIteration:
        break
    mode = training.fast.mode if on else "off"
    step(inputs, targets)
    took = clock() - started
    number += 1
    if number == 20:
        wrappers = places()
        hooked = [dict(hooks._global_optimizer_pre_hooks), dict(hooks._global_optimizer_post_hooks)]
    if number > 20:
        if number % BLOCK >= SKIPPED:  # the first ones after a switch find the caches full of the other kind
            times[on].append(took * 1e6)
            if mode in kinds:
                kinds[mode].append(took * 1e6)
        if number % BLOCK == BLOCK - 1:
            blocks[on].append(sum(times[on]) / len(times[on]))
            times[on].clear()
            wait()
            spans[on].append((all_clock() - block_began) / BLOCK * 1e6)
            on = not on
            switch(on)
            block_began = all_clock()
ended = clock()
run = gputop.init(name="hot")
calls = 20000
started = clock()
for number in range(calls):
    run.log(loss=0.5, lr=0.1, acc=0.9, norm=1.5, step=number)
hot = (clock() - started) / calls * 1e6
print(
    json.dumps(
        {
            "off": blocks[False],
            "on": blocks[True],
            "span_off": spans[False][1:],
            "span_on": spans[True][1:],
            "log": hot,
            "kinds": kinds,
            "looks": sum(looks) / (ended - began),
        }
    )
)
"""


def loop(directory: Path, layers: int, steps: int, device: str, kind: str, width: int) -> dict[str, Any]:
    """Return the mean step of each block of one process, tracked and not, and a hot ``log``, in microseconds.

    ``off`` and ``on`` are the host's times for a step; ``span_off`` and ``span_on`` also include the wait for the device.
    """
    path = directory / "loop.py"
    path.write_text(LOOP, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GPUTOP_DIR": str(directory / "state"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(path), str(layers), str(steps), device, kind, str(width)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def middle(values: list[float]) -> float:
    """Return the mean without the lowest and the highest tenth.

    A median would hide that records are written in batches, and that one step in many is recorded in full.
    """
    ordered, cut = sorted(values), len(values) // 10
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def added(found: list[dict[str, Any]], off: str, on: str) -> float:
    """Return what tracking adds to a step, in microseconds.

    Each block is compared with its neighbor: slow changes of the machine affect both equally.
    """
    return middle([after - before for one in found for after, before in zip(one[on], one[off], strict=False)])


def measure(quick: bool, device: str, kind: str, numbers: Sequence[int], width: int) -> dict[str, Any]:
    """Return for each number of layers: the step without tracking, and what tracking adds to it, in microseconds."""
    rounds, share = (2, 0.1) if quick else (5, 1.0)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        # Long enough that the beginning, where each step is recorded in full, weighs as much as in a training of half a minute.
        for layers in numbers:
            steps = int((24_000 if layers < 10 else 12_000) * share)
            found = [loop(Path(name), layers, steps, device, kind, width) for _ in range(rounds)]
            more = added(found, "off", "on")
            step_us = middle([before for one in found for before in one["off"]])
            off, fast, full = ([took for one in found for took in one["kinds"][name]] for name in ("off", "fast", "full"))
            result[f"{layers} layers"] = {
                "step_us": step_us,
                "fast_added_us": middle(fast) - middle(off) if fast else None,
                "full_added_us": middle(full) - middle(off) if full else None,
                "full_percent": 100 * len(full) / max(1, len(fast) + len(full)),
                "added_us": more,
                "percent_of_5_ms": more / 50,
                "added_until_done_us": added(found, "span_off", "span_on"),
                "looks_percent": 100 * statistics.median(one["looks"] for one in found),
                "log_us": statistics.median(one["log"] for one in found),
            }
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
    print(f"a real torch step on the {options.device} ({options.loop}), alternately untracked and tracked: mean microseconds")
    whole = "in the whole process" if options.device == "cpu" else "until the device is done"
    for name, row in found.items():
        print(
            f"  {name:10}  without {row['step_us']:7.1f}  added {row['added_us']:+6.1f}"
            f" = {row['percent_of_5_ms']:.2f} % of 5 ms, and {row['looks_percent']:.3f} % for looks;"
            f" {whole} {row['added_until_done_us']:+6.1f}"
            f"  (a hot log() of 4 metrics takes {row['log_us']:.1f} here)"
        )
        parts = [
            f"{kind} steps {row[f'{kind}_added_us']:+.1f}" for kind in ("fast", "full") if row[f"{kind}_added_us"] is not None
        ]
        print(f"  {'':10}  of which {', '.join(parts)}; {row['full_percent']:.1f} % of the steps are measured in full")


if __name__ == "__main__":
    with ended_by_signals():
        main()
