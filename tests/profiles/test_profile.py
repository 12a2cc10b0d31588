"""A profile of a live training, through the real parts: the weights stay, its own profilers and forks come first."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from gputop.profiled import Profile
from gputop.profiles.asking import ask
from gputop.snapshot import Run
from gputop.tracking.profiling import exchange
from gputop.tracking.reader.runs import RunReader
from gputop.where.rings import rings_of
from tests.tracking.kit import Home, eventually, home

assert home

TRAINING = """
import os, sys, time, zlib, gputop, torch
steps, mode = int(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(8)])
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(64, 32))

def train(step):
    for (rows,) in torch.utils.data.DataLoader(data, batch_size=64):
        optimizer.zero_grad()
        net(rows).square().mean().backward()
        time.sleep(0.015)  # SLEEPS
        optimizer.step()

step = 0
while step < steps if steps else not os.path.exists(mode + ".over"):
    now = open(mode).read() if not steps else ""
    if now == "profile":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
            train(step)
        assert own.key_averages()
    else:
        train(step)
    if now == "fork" and step % 3 == 0:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    step += 1
print(step, zlib.crc32(b"".join(p.detach().numpy().tobytes() for p in net.parameters())))
"""


@pytest.mark.warm
def test_a_training_is_profiled_and_stays_what_it_is(home: Home, tmp_path: Path) -> None:
    mode = tmp_path / "mode"
    mode.write_text("train")
    training = home.start(TRAINING, "0", str(mode), OMP_NUM_THREADS="1")
    run = eventually(lambda: _known(home), "the run has steps")
    _asks_what_it_costs(run, home)
    _nobody_else_is_heard(run, home)
    _records_three_steps(run, home, training)

    for now, why in (("profile", "profiler itself"), ("fork", "forked")):
        mode.write_text(now)
        found = eventually(lambda why=why: _refused(run, home, why), f"it gives way: {now}")  # type: ignore[misc]
        assert found.trace is None
        assert training.poll() is None
    tmp_path.joinpath("mode.over").touch()
    out, errors = training.communicate(timeout=60)
    assert training.returncode == 0, errors
    assert "Traceback" not in errors
    assert "gputop" not in errors
    steps, _ = out.split()
    code, bare, _ = home.run(TRAINING, steps, "", GPUTOP="0", OMP_NUM_THREADS="1")
    assert (code, bare) == (0, out), "bit for bit what it is without a profile"
    gone = ask(run, 1, go=True, runs_dir=home.runs)
    assert (gone.state, gone.hint) == ("refused", None)
    assert "No rank of this run" in str(gone.why)


OTHER_THREADS = """
import threading, torch
def compute():
    while True:
        for _ in range(50):
            torch.ones(4).add_(1)
for _ in range(2):
    threading.Thread(target=compute, daemon=True).start()
"""
STEPS_INSIDE_BACKWARD = """
import gputop, time, torch
net = torch.nn.Linear(32, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
net.weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
while True:
    net(torch.randn(8, 32)).square().mean().backward()
    time.sleep(0.02)
"""
ONE_SCOPE_FOR_SEVERAL_STEPS = """
import gputop, time, torch
net = torch.nn.Linear(32, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
while True:
    time.sleep(0.005)
    with torch.profiler.record_function("several steps"):
        for _ in range(9):
            optimizer.zero_grad()
            net(torch.randn(8, 32)).square().mean().backward()
            optimizer.step()
            time.sleep(0.02)
"""


@pytest.mark.warm
def test_other_threads_of_the_training_compute_on(home: Home, tmp_path: Path) -> None:
    """Ended in a SIGSEGV in three of eight trainings while torch recorded all threads."""
    training = home.start(OTHER_THREADS + TRAINING, "0", str(tmp_path / "mode"), OMP_NUM_THREADS="1")
    tmp_path.joinpath("mode").write_text("train")
    run = eventually(lambda: _known(home), "the run has steps")
    for _ in range(2):
        found = ask(run, 10, go=True, runs_dir=home.runs)
        assert found.state == "done" or _took_too_long(found), found.why
        assert training.poll() is None
    training.kill()


@pytest.mark.warm
def test_steps_inside_backward_are_not_recorded(home: Home) -> None:
    training = home.start(STEPS_INSIDE_BACKWARD, OMP_NUM_THREADS="1")
    run = eventually(lambda: _known(home), "the run has steps")
    found = ask(run, 1, go=True, runs_dir=home.runs)
    assert (found.state, "inside of backward" in str(found.why)) == ("refused", True), found.why
    assert training.poll() is None
    training.kill()


@pytest.mark.warm
def test_a_scope_that_outlives_a_recorded_step_ends_the_recording(home: Home) -> None:
    training = home.start(ONE_SCOPE_FOR_SEVERAL_STEPS, OMP_NUM_THREADS="1")
    run = eventually(lambda: _known(home), "the run has steps")
    found = eventually(lambda: _with_note(run, home), "a scope begins in a recorded step")
    assert found.steps is not None
    assert found.steps < 10
    assert training.poll() is None
    training.kill()


SCRIPTED = """
import sys, time, gputop, torch

@torch.jit.script
def small(x):
    return x * 0.5

def loop(x, times: int):
    for _ in range(times):
        x = x + 1.0
    return x

net = torch.nn.Linear(4, 1)
ones = torch.ones(2, 4)
if sys.argv[1] == "scripted":
    net = torch.jit.script(net)
elif sys.argv[1] == "traced":
    net = torch.jit.trace(net, ones)
elif sys.argv[1] == "loop":
    loop = torch.jit.script(loop)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    loop(small(net(ones)), 3).sum().backward()
    time.sleep(0.02)
    optimizer.step()
"""


@pytest.mark.warm
@pytest.mark.parametrize(
    ("kind", "state"), [("scripted", "refused"), ("traced", "refused"), ("loop", "refused"), ("", "offer")]
)
def test_torchscript_is_not_profiled(home: Home, kind: str, state: str) -> None:
    """With a loop of small operators, torch collected for up to 4 usual steps, and a second time for 3."""
    training = home.start(SCRIPTED, kind, OMP_NUM_THREADS="1")
    run = eventually(lambda: _known(home), "the run has steps")
    found = ask(run, 1, go=False, runs_dir=home.runs)
    assert (found.state, "TorchScript" in str(found.why)) == (state, state == "refused"), found.why
    assert training.poll() is None
    training.kill()


def _with_note(run: Run, home: Home) -> Profile | None:
    found = ask(run, 10, go=True, runs_dir=home.runs)
    return found if "record_function" in str(found.note) else None


def _known(home: Home) -> Run | None:
    reader = RunReader(home.runs)
    try:
        return next((run for run in reader.poll().runs if run.ranks and (run.ranks[0].step or 0) > 20), None)
    finally:
        reader.close()


def _asks_what_it_costs(run: Run, home: Home) -> None:
    offer = ask(run, 3, go=False, runs_dir=home.runs)
    assert (offer.state, offer.why, offer.steps, offer.rank) == ("offer", None, 3, 0)
    assert offer.step_s is not None
    assert offer.expected_s is not None
    assert offer.step_s >= 0.015
    assert offer.expected_s > offer.step_s


def _nobody_else_is_heard(run: Run, home: Home) -> None:
    """Damaged, old and foreign requests are discarded, and none of them is answered."""
    ring = next(iter(rings_of(run, home.runs).values()))
    ring.close()
    asked = {"id": "0" * 16, "steps": 3, "go": True, "at": time.time()}
    elsewhere = home.state / "elsewhere"
    elsewhere.write_text(json.dumps(asked))
    path = exchange.request_path(ring.path)
    before = exchange.read(exchange.answer_path(ring.path))
    path.symlink_to(elsewhere)
    eventually(lambda: not os.path.lexists(path), "the link is thrown away")
    assert elsewhere.exists()
    assert exchange.read(exchange.answer_path(ring.path)) == before
    for request in (asked | {"steps": 10**6}, asked | {"at": 5.0}, asked | {"id": "../x"}, {}):
        exchange.put(path, request)
        assert exchange.take_request(path) is None
        assert not path.exists()
    exchange.put(path, asked)
    path.chmod(0o666)
    assert exchange.take_request(path) is None
    path.parent.chmod(0o755)
    try:
        refused = ask(run, 1, go=True, runs_dir=home.runs)
        assert "only this user can enter" in str(refused.why)
    finally:
        path.parent.chmod(0o700)


def _records_three_steps(run: Run, home: Home, training: subprocess.Popen[str]) -> None:
    found = eventually(lambda: _done(run, home), "no step takes three times as long as usual meanwhile")
    assert found.why is None
    assert found.steps is not None
    assert found.trace is not None
    assert found.recorded_s is not None
    assert 1 <= found.steps <= 3, "fewer only where a step became too long on this machine, and then it is said"
    assert found.steps == 3 or found.note is not None
    assert found.extra_s is not None
    assert abs(sum(found.shares.values()) - found.recorded_s) < 1e-6
    assert found.shares["python"] > found.steps * 0.01, "it sleeps in Python"
    assert found.shares["operators"] > 0
    assert found.shares["data"] > 0
    assert "peers" not in found.shares
    assert found.samples > 0
    assert sum(line.samples for line in found.script_lines) <= found.samples
    assert ".py:" in found.script_lines[0].line, "the line that runs, of a script of any name"
    names = {operator.name for operator in found.operators}
    assert names & {"aten::addmm", "aten::mm"}
    with gzip.open(found.trace, "rb") as file:
        trace = json.load(file)
    steps = [event for event in trace["traceEvents"] if event.get("name") == "Optimizer.step#SGD.step"]
    assert len(steps) >= found.steps
    assert Path(found.trace).parent == home.runs / run.run_id
    assert os.stat(found.trace).st_mode & 0o077 == 0
    ring = next(iter(rings_of(run, home.runs).values()))
    ring.close()
    assert not list(ring.path.parent.glob("*.trace")), "what took memory is gone"
    assert training.poll() is None


def _done(run: Run, home: Home) -> Profile | None:
    found = ask(run, 3, go=True, runs_dir=home.runs)
    assert found.state == "done" or _took_too_long(found), found.why
    return found if found.state == "done" else None


def _took_too_long(found: Profile) -> bool:
    """Return whether a profile was given up because it held up the training, as any may on a busy machine."""
    return any(words in str(found.why) for words in ("had not ended", "starting and stopping", "times as long as usual"))


def _refused(run: Run, home: Home, why: str) -> Profile | None:
    found = ask(run, 10, go=True, runs_dir=home.runs)
    return found if found.state == "refused" and why in str(found.why) else None
