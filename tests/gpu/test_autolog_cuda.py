"""Automatic tracking on a real GPU: what it says of waits, copies, memory and times, and that it waits for nothing itself."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tracking.kit import Home, home, read_all

assert home

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("needs_cuda")]

RUN = (sys.executable, "-m", "gputop", "run", "--name", "mine", "--", sys.executable)
SCRIPT = """
import sys, time
import torch

mode = sys.argv[1]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
host = torch.randn(64, 256)
pinned = host.pin_memory()
kept = host.cuda()
torch.cuda.synchronize()
began, step = time.monotonic(), 0
while step < 200 or time.monotonic() - began < 9:
    if mode == "quiet":
        # From the third step on nothing may wait: torch raises where anything does, gputop's part included.
        torch.cuda.set_sync_debug_mode("error" if step >= 2 else "default")
        inputs = pinned.to("cuda", non_blocking=True)
    else:
        inputs = host.to("cuda")
    loss = model(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if mode != "quiet":
        loss.item()  # waits
    elif step % 100 == 0:
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
torch.cuda.set_sync_debug_mode("default")
torch.cuda.synchronize()
print(step)
"""
LOOPS = """
import hashlib, json, sys
import torch

mode, strict = sys.argv[1], torch.cuda.set_sync_debug_mode
torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
# GradScaler itself waits, in its step, for what it found before it calls the optimizer's.
optimizer.register_step_pre_hook(lambda *_: strict("error"))
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
inputs = torch.randn(4, 32, 64, device="cuda")
losses, fast = [], 0
torch.cuda.synchronize()
tracked = sys.modules.get("gputop.tracking.auto.install")
for step in range(600):
    # From the third step on nothing may wait: torch raises where anything does, gputop's part included.
    strict("error" if step >= 2 else "default")
    optimizer.zero_grad()
    if mode == "accumulation":
        parts = []
        for part in inputs:
            loss = model(part).square().mean()
            (loss / 4).backward()
            parts.append(loss.detach())
        losses.append(torch.stack(parts).mean())
        optimizer.step()
    else:
        loss = model(inputs[step % 4]).square().mean()
        losses.append(loss.detach().clone())
        if mode == "scaler":
            scaler.scale(loss).backward()
            if step % 50 == 49:
                model[0].weight.grad[0, 0].fill_(float("inf"))  # the scaler skips the step
            strict("default")
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
    if tracked is not None:
        fast += tracked.tracked().training.fast.mode == "fast"
    if step % 100 == 99:
        strict("default")
        torch.cuda.synchronize()
strict("default")
weights = b"".join(item.detach().cpu().numpy().tobytes() for item in model.parameters())
print(json.dumps([hashlib.sha256(weights).hexdigest(), torch.stack(losses).tolist(), fast]))
"""


def tracked(home: Home, mode: str) -> tuple[dict[str, Any], dict[str, list[tuple[int, float]]], int]:
    """The facts and series of the script in one mode, and how many steps it made."""
    code, out, err = home.run(SCRIPT, mode, command=RUN)
    assert code == 0, err
    assert "gputop" not in err
    (archive,) = home.archives()
    return dict(home.only_run().ranks[0].facts), read_all(archive).series, int(out)


def test_waits_and_copies_of_a_loop_that_waits(home: Home, tmp_path: Path) -> None:
    facts, series, steps = tracked(home, "waiting")
    lines = SCRIPT.splitlines()
    waited, copied = facts["synchronizations"], facts["transfers"]
    assert waited["steps"] >= 1
    assert waited["per_step"] == 1
    assert lines[int(waited["where"].rpartition(":")[2]) - 1].strip() == "loss.item()  # waits"
    assert (copied["per_step"], copied["bytes_per_step"]) == (1, 64 * 256 * 4)
    assert (copied["pageable_per_step"], copied["blocking_per_step"]) == (1, 1)
    assert lines[int(copied["where"].rpartition(":")[2]) - 1].strip() == 'inputs = host.to("cuda")'
    assert [step for step, _ in series["loss"]] == sorted(step for step, _ in series["loss"])
    assert len(series["loss"]) == steps


def test_it_waits_for_nothing_and_records_times_memory_and_devices(home: Home) -> None:
    facts, series, steps = tracked(home, "quiet")
    assert len(series["loss"]) == steps
    assert facts["synchronizations"]["per_step"] == 0
    assert (facts["transfers"]["pageable_per_step"], facts["transfers"]["blocking_per_step"]) == (0, 0)
    torch = pytest.importorskip("torch")
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    assert facts["environment"]["visible_uuids"][0] == uuid
    memory = facts["cuda_memory"]
    assert 0 < memory["allocated_bytes"] <= memory["reserved_bytes"] < memory["total_bytes"]
    assert (memory["retries"], memory["out_of_memory"], memory["empty_cache_calls"]) == (0, 0, 0)
    assert series["memory_allocated_bytes"]
    whole = dict(series["cuda/step_s"])
    assert len(whole) >= 5, "about two a second"
    rates = [value for step, value in series["samples_per_s"] if step > steps / 2]
    assert statistics.median(rates) == pytest.approx(64 * steps / 9, rel=0.5), "not by the time in which the host queues a step"
    for name in ("cuda/forward_s", "cuda/backward_s", "cuda/optimizer_s"):
        parts = dict(series[name])
        assert parts.keys() == whole.keys()
        assert all(0 < parts[step] < whole[step] for step in parts)
    probes = facts["parameters"]["recent"]
    assert probes
    assert all(checksum is None and isinstance(total, float) for _, checksum, total in probes)
    assert set(facts["model"]["parameter_devices"]) == {"cuda:0"}


@pytest.mark.parametrize("mode", ["plain", "accumulation", "scaler"])
def test_fast_steps_wait_for_nothing_and_have_their_losses(home: Home, mode: str) -> None:
    deterministic = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    code, out, err = home.run(LOOPS, mode, GPUTOP="0", **deterministic)
    assert code == 0, err
    weights, losses, _ = json.loads(out)
    code, out, err = home.run(LOOPS, mode, command=RUN, **deterministic)
    assert code == 0, err
    assert "gputop" not in err
    tracked_weights, tracked_losses, fast = json.loads(out)
    assert (tracked_weights, tracked_losses) == (weights, losses), "bit by bit as without gputop"
    assert fast > len(losses) / 3
    (archive,) = home.archives()
    found = read_all(archive).series["loss"]
    assert [step for step, _ in found] == list(range(len(losses)))
    assert [value for _, value in found] == pytest.approx(losses, rel=1e-5)


def test_a_training_in_a_cuda_graph_is_left_alone(home: Home) -> None:
    script = SCRIPT.partition("began, step")[0] + (
        """
def step():
    optimizer.zero_grad(set_to_none=False)
    loss = model(kept).square().mean()
    loss.backward()
    optimizer.step()
    return loss

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(25):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(50):
    graph.replay()
torch.cuda.synchronize()
print(repr(loss.item()))
"""
    )
    plain = home.run(script, "graph", GPUTOP="0")
    tracked = home.run(script, "graph", command=RUN)
    assert plain[0] == tracked[0] == 0, tracked[2]
    assert plain[1] == tracked[1]
