"""The fast path logs the same as if all iterations were measured in full."""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
import weakref
from pathlib import Path

import pytest

from gputop.snapshot import Run
from gputop.tracking.auto.training.fast_path import FastPath, FastTurn, Stretch
from gputop.tracking.auto.training.iteration import Iteration
from gputop.tracking.auto.training.pace import FULL_ONE_IN, FULL_PER_S, RATE_MIN_S, RATE_S, Rate, full_share, is_full
from gputop.tracking.reader.runs import RunReader
from tests.packages import needs
from tests.tracking.kit import Home, home, read_all

pytestmark = [needs("torch"), pytest.mark.warm]
assert home

SCRIPTS = Path(__file__).parent.parent / "scripts"
IN_EVERY_STEP = ("loss", "checkpoint_s", "phase/evaluation", "phase/data", "step_s")
WHEN_LOOKED_AT = ("lr", "epoch", "phase/forward", "phase/backward", "phase/optimizer", "samples_per_s")
BY_CHANCE = {"gc_s"}
"""Python also collects garbage when it sees fit."""
COUNTED = ("gradients", "wrapper_calls", "checkpoint", "evaluation")
"""Facts that count what was inspected, or hold times."""


def steps_of(step_s: float, number: int = 20_000) -> list[int]:
    part = full_share(step_s)
    return [step for step in range(number) if is_full(step, part)]


@pytest.mark.parametrize("step_s", [0.0005, 0.003, 0.008, 0.02, 0.1])
def test_full_iterations_are_spread_evenly(step_s: float) -> None:
    steps = steps_of(step_s)
    gaps = [after - before for before, after in itertools.pairwise(steps)]
    assert max(gaps) < 3 * min(gaps)  # else the doctor would take a gap for the end of the facts
    assert max(gaps) <= 3 * FULL_ONE_IN
    for period in (2, 3, 4, 5, 7, 8, 10, 16, 50):
        # At least half of an even share, whatever repeats every few steps.
        counts = [sum(step % period == rest for step in steps) for rest in range(period)]
        assert min(counts) >= len(steps) / period / 2, period


def test_ranks_of_different_pace_measure_the_same_steps() -> None:
    quick, slow = set(steps_of(0.001)), set(steps_of(0.004))
    assert quick < slow


def test_slow_iterations_are_all_measured_and_quick_ones_often_enough() -> None:
    assert steps_of(0.1, 100) == list(range(100))
    for step_s in (0.001, 0.002, 0.004, 0.01, 0.03):
        assert len(steps_of(step_s)) / (20_000 * step_s) >= FULL_PER_S / 2


def points(home: Home, run: Run) -> dict[str, dict[int, float]]:
    (archive,) = (home.runs / run.run_id).glob("rank-*.gpr")
    found = {}
    for name, series in read_all(archive).series.items():
        found[name] = dict(series)
        assert len(found[name]) == len(series), f"{name}: a step has one value"
    return found


def without_times(fact: object) -> object:
    return {key: value for key, value in fact.items() if not key.endswith("_s")} if isinstance(fact, dict) else fact


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        ((), (2, 3)),
        (("gpu",), (1,)),
        (("pair",), (2,)),
        (("adversarial",), (4,)),
        (("gpu", "adversarial"), (4,)),
        (("ddp",), (2, 3)),
        (("gpu", "ddp"), (2,)),
    ],
    ids=["cpu", "gpu", "pair", "adversarial", "gpu-adversarial", "ddp", "gpu-ddp"],
)
def test_unusual_iterations_are_logged_as_if_every_iteration_were_measured_in_full(
    home: Home, words: tuple[str, ...], seeds: tuple[int, ...]
) -> None:
    done = home.finish((sys.executable, "mixed.py", *words, *map(str, seeds)), SCRIPTS)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[::2] == said[1::2], "what the trainings did is the same to the bit"
    reader = RunReader(home.runs)
    runs = {run.name: run for run in reader.poll().runs}
    reader.close()
    assert len(runs) == 2 * len(seeds)
    for seed in seeds:
        fast, full = runs[f"{seed}-fast"], runs[f"{seed}-full"]
        few, all_of = points(home, fast), points(home, full)
        assert few.keys() - BY_CHANCE == all_of.keys() - BY_CHANCE
        assert fast.ranks[0].step == full.ranks[0].step
        for name, values in few.items():
            if name.startswith(IN_EVERY_STEP):
                assert list(values) == list(all_of[name]), name
                assert list(values) == sorted(values), name
            if name.startswith(("loss", "lr", "epoch")):
                assert all(same(value, all_of[name][step]) for step, value in values.items()), name
        for name in WHEN_LOOKED_AT:
            assert few[name].keys() < all_of[name].keys(), name
        facts, known = fast.ranks[0].facts, full.ranks[0].facts
        assert facts.keys() == known.keys()
        if "ddp" in words:
            few_counted, all_counted = facts["gradients"], known["gradients"]
            assert 0 < few_counted["steps"] < all_counted["steps"]
            for name in ("backwards", "synced_backwards", "unsynced_steps"):
                per_step = all_counted[name] / all_counted["steps"]
                assert few_counted[name] / few_counted["steps"] == pytest.approx(per_step, abs=0.1), name
        # Which calls are measured for "batches" depends on how long the steps took, too.
        for name in facts.keys() - {*COUNTED, "parameters", *(("batches", "ddp") if "ddp" in words else ())}:
            assert without_times(facts[name]) == without_times(known[name]), name
        # Which steps are probed depends on how long they took; what is found there does not.
        probed, all_probed = ({step: rest for step, *rest in item["parameters"]["recent"]} for item in (facts, known))
        assert all(all_probed.get(step, rest) == rest for step, rest in probed.items())
        assert facts["evaluation"]["calls"] == known["evaluation"]["calls"]
        assert facts["checkpoint"]["step"] == known["checkpoint"]["step"]


SMALL = """
import time, torch, gputop
from gputop.tracking.auto import install
from gputop.tracking.journal.writing import writer

torch.set_num_threads(1)
model, losses = torch.nn.Linear(4, 1), []
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step():
    optimizer.zero_grad()
    loss = model(torch.randn(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    return install.tracked().training
"""


def test_quick_iterations_are_written_by_the_training_itself(home: Home) -> None:
    code, said, error = home.run(
        SMALL
        + """
writer.Journal.poll_often = lambda self: None  # the thread does not come for them
written, steps = 0, step()
for number in range(3000):
    fast = steps.fast.mode == "fast"
    step()
    written += fast and not steps.journal.waits
print(written)
"""
    )
    assert code == 0, error
    assert int(said) > 5
    assert len(points(home, home.only_run())["loss"]) == 3001


@pytest.mark.parametrize("arguments", ["tensors, grad_tensors=None, *, extra=None", "*tensors, **more"])
def test_a_backward_with_other_arguments_than_todays_takes_the_full_path(home: Home, arguments: str) -> None:
    code, said, error = home.run(
        f"""
import torch

original = torch.autograd.backward

def backward({arguments}):
    return original(*tensors) if isinstance(tensors, tuple) else original(tensors, grad_tensors)

torch.autograd.backward = backward
torch.Tensor.backward = lambda self: torch.autograd.backward(self)
{SMALL}
fast = 0
for number in range(200):
    fast += step().fast.mode == "fast"
print(losses[-1], torch.autograd.backward.__wrapped__ is backward, fast)
"""
    )
    assert code == 0, error
    last, wrapped, fast = said.split()
    assert (wrapped, fast) == ("True", "0")
    losses = points(home, home.only_run())["loss"]
    assert list(losses) == list(range(200))
    assert losses[199] == float(last)


def test_a_loss_on_two_lines_is_found_at_the_line_that_calls_backward(home: Home) -> None:
    code, _, error = home.run(
        SMALL
        + """
for number in range(60):
    optimizer.zero_grad()
    first = model(torch.randn(2, 4)).square().mean()
    first.backward()
    second = model(torch.randn(2, 4)).abs().mean()
    torch.autograd.backward(second)
    optimizer.step()
"""
    )
    assert code == 0, error
    assert {"loss/first", "loss/second"} <= points(home, home.only_run()).keys()


def test_a_backward_on_another_thread_is_over_once_the_training_has_stepped(home: Home) -> None:
    """Else a step without a loss, many steps later, would look as if that thread had run its backward."""
    code, said, error = home.run(
        SMALL
        + """
import threading


def train_elsewhere():
    other = torch.nn.Linear(2, 1)
    other_optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    other(torch.ones(1, 2)).sum().backward()
    other_optimizer.step()


def fast_steps():
    return sum(step().fast.mode == "fast" for number in range(100))


fast_steps()
while step().fast.mode != "fast":
    pass
thread = threading.Thread(target=train_elsewhere)
thread.start()
thread.join()
step()
step()
optimizer.step()
print(fast_steps(), install.tracked().training.threads.in_turn)
"""
    )
    assert code == 0, error
    fast, in_turn = said.split()
    assert in_turn == "False"
    assert int(fast) > 0


def test_a_child_that_is_forked_meanwhile_begins_on_the_full_path(home: Home) -> None:
    code, _, error = home.run(
        """
import os, torch, gputop
from gputop.tracking.auto import install

torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(8000, 4))
loader = torch.utils.data.DataLoader(data, batch_size=4)


def train(until):
    for number, (inputs,) in enumerate(batches):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        if until(number):
            return


batches = iter(loader)
train(lambda number: number > 100 and install.tracked().training.fast.mode == "fast")
child = os.fork()
train(lambda number: number == 20)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    )
    assert code == 0, error
    reader = RunReader(home.runs)
    runs = reader.poll().runs
    reader.close()
    child, parent = sorted((points(home, run) for run in runs), key=lambda found: len(found["loss"]))
    assert list(child["loss"]) == list(range(21))
    assert list(child["phase/data"]) == list(range(1, 21))
    assert parent["phase/data"].keys() >= set(range(1, 100))


def test_the_wait_for_a_second_loader_counts(home: Home) -> None:
    code, said, error = home.run(
        SMALL
        + """
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, number):
        time.sleep(0.02)
        return torch.randn(4)


quick, slow = iter(torch.utils.data.DataLoader(range(1000))), iter(torch.utils.data.DataLoader(Slow()))
meant = []
for number in range(700):
    next(quick)
    tracked = install.tracked().training
    if number > 300 and number % 50 == 0 and tracked.fast.mode == "fast":
        next(slow)
        meant.append(tracked.reached + 1)
    step()
print(*meant)
"""
    )
    assert code == 0, error
    waits = points(home, home.only_run())["phase/data"]
    steps = [int(step) for step in said.split()]
    assert len(steps) > 3
    assert all(waits[step] >= 0.02 for step in steps)


@pytest.mark.parametrize("device", [(), ("gpu",)], ids=["cpu", "gpu"])
def test_accumulated_scaled_and_several_losses_are_taken_on_the_fast_path(home: Home, device: tuple[str, ...]) -> None:
    done = home.finish((sys.executable, "quick.py", *device), SCRIPTS)
    assert (done.returncode, done.stderr) == (0, "")
    reader = RunReader(home.runs)
    runs = {run.name: run for run in reader.poll().runs}
    reader.close()
    for case, told in json.loads(done.stdout).items():
        found = points(home, runs[case])
        assert told["fast"] > len(told["losses"]) / 4, case
        for step, losses in enumerate(told["losses"]):
            for name, value in losses.items():
                assert found[name][step] == pytest.approx(value, rel=1e-5), (case, step)
        assert list(found["step_s"]) == sorted(found["step_s"]), case
        assert len(found["step_s"]) >= len(told["losses"]) - 2, case


@pytest.mark.parametrize("loss", ["loss / 2", "scaler.scale(loss / 2)", "loss.sum() * 0.5"])
def test_no_graph_of_an_accumulated_loss_outlives_its_backward(home: Home, loss: str) -> None:
    code, said, error = home.run(
        SMALL
        + f"""
import weakref


class Kept:
    pass


class Remembers(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.kept = Kept()
        nodes.append(weakref.ref(ctx.kept))
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
nodes, left, fast = [], 0, 0
for number in range(400):
    optimizer.zero_grad()
    for _ in range(2):
        loss = Remembers.apply(model(torch.randn(2, 4))).square().mean()
        loss = {loss}
        loss.backward()
        del loss
        left += any(node() is not None for node in nodes)
        nodes.clear()
    optimizer.step()
    fast += install.tracked().training.fast.mode == "fast"
print(left, fast)
"""
    )
    assert code == 0, error
    left, fast = map(int, said.split())
    assert left == 0
    assert fast > 100


def test_a_line_that_backward_no_longer_runs_on_alone_is_found_again(home: Home) -> None:
    """The script replaces what is between its line and torch while the fast path knows that line."""
    code, said, error = home.run(
        SMALL
        + """
original = torch.Tensor.backward


def mine(self, *arguments):
    original(self, *arguments)


meant = []
for number in range(600):
    torch.Tensor.backward = mine if number > 300 and number % 40 == 7 else original
    optimizer.zero_grad()
    for _ in range(2):
        loss = model(torch.randn(2, 4)).square().mean() / 2
        loss.backward()
    optimizer.step()
    if torch.Tensor.backward is mine:
        meant.append(number)
print(meant)
"""
    )
    assert code == 0, error
    found = points(home, home.only_run())
    (other,) = (values for name, values in found.items() if name.startswith("loss/"))
    assert list(other) == json.loads(said)
    assert set(found["loss"]) == set(range(600)) - set(other)


class Optimizer:
    """An object of which nothing is known but that it steps."""


def test_a_step_of_another_optimizer_with_the_same_id_is_not_fast() -> None:
    import torch

    fast, first = FastPath(torch), Optimizer()
    turn, known = FastTurn(0, weakref.ref(first), [], ("loss",)), id(first)
    fast.begin(
        step=0,
        mark=time.perf_counter(),
        last_step=100,
        pause_every=0,
        turns=[turn],
        step_s="step_s",
        data="phase/data",
        feed=None,
        thread=0,
        stretch=Stretch(),
        late=lambda *late: None,
        several=None,
    )
    del first
    others = [Optimizer() for _ in range(1000)]
    fast.loss = 1.0
    assert not any(fast.stepped(other) for other in others if id(other) == known)
    assert known in map(id, others), "Python gives a freed object's place to the next one of its size"


def test_a_training_on_a_gpu_is_as_fast_as_its_gpu_and_not_as_its_queue() -> None:
    """Seen on an H200: 103,938 samples a second by the time of single steps, and 35,000 in truth.

    The host queues 50 steps in 0.1 s, and then reads the loss: the GPU takes 58 ms for each.
    """
    rate, told = Rate(), []
    for step in range(1000):
        told.append(rate.after(step, now=step // 50 * 2.9 + step % 50 * 0.002))
    assert told[0] is None
    late = [took for took in told[200:] if took is not None]
    assert len(late) == 800
    assert min(late) > 0.03
    assert max(late) < 0.1
    rate.clear()
    assert rate.after(1001, 3000.0) is None, "an evaluation came between"
    assert rate.after(1002, 3000.0 + RATE_MIN_S / 2) is None, "too short to tell"
    assert rate.after(1003, 3000.0 + RATE_S) == pytest.approx(RATE_S / 2)


def test_throughput_needs_the_usual_time_of_a_step() -> None:
    iteration, values = Iteration(), {}
    iteration.add_call(64, 0)
    iteration.add_loss()
    iteration.put(values, 0.002, 0.058, in_full=True, has_loader=False, optimizer=True)
    assert (values["step_s"], values["pace_s"], values["samples_per_s"]) == (0.002, 0.058, pytest.approx(64 / 0.058))
    values.clear()
    iteration.put(values, 0.002, None, in_full=True, has_loader=False, optimizer=True)
    assert not {"samples_per_s", "pace_s"} & values.keys()


def test_a_run_on_the_cpu_has_no_pace_beside_its_step_times() -> None:
    iteration, values, took = Iteration(), {}, 0.058
    iteration.put(values, took, took, in_full=True, has_loader=False, optimizer=True)
    assert values == {"step_s": took, "phase/optimizer": 0.0}


def test_a_run_on_a_gpu_records_its_throughput_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gputop.tracking.auto.timings import Timings
    from gputop.tracking.auto.training.epochs import Epochs
    from gputop.tracking.auto.training.state import Training

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr("gputop.tracking.auto.timings.memory_values", lambda cuda: {})
    training, told = Training(torch), []
    timings = Timings(training, Epochs())
    for step in range(120):  # the host queues 20 steps in 20 ms, and waits for them until the second is over
        training.next_iteration()
        training.iteration.add_call(8, 0)
        training.iteration.add_loss()
        values: dict[str, float] = {}
        timings.put(values, 1000.0 + step // 20 + step % 20 * 0.001, has_optimizer=True)
        training.iteration.begin()
        told.append(values.get("samples_per_s"))
    assert values["pace_s"] == pytest.approx(0.05, rel=0.5)
    assert all(rate is not None and 80 < rate < 330 for rate in told[40:]), "160 in truth; by single steps, 8,000"


def test_a_loss_that_is_scaled_within_vmap_has_no_value_and_stops_nothing(home: Home) -> None:
    code, _, error = home.run(
        SMALL
        + """
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
for number in range(40):
    optimizer.zero_grad()
    torch.vmap(lambda row: scaler.scale(row.square().sum()))(torch.ones(3, 4))
    scaler.scale(model(torch.randn(2, 4)).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    )
    assert code == 0, error
    assert error == ""
    assert len(points(home, home.only_run())["loss"]) == 40
