"""Optimizers that come and go between the steps of one that stays: which steps are those of the run, only the script knows."""

from __future__ import annotations

import sys

import pytest

from tests.packages import needs
from tests.tracking.kit import Home, home, read_all

assert home
pytestmark = needs("torch")
RUN = (sys.executable, "-m", "gputop", "run", "--", sys.executable)
TEXT = 3
META = """
import copy, torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
outer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(6):
    outer.zero_grad()
    for task in range(3):
        own = copy.deepcopy(model)
        inner = torch.optim.SGD(own.parameters(), lr=0.125)
        for _ in range(2):
            inner.zero_grad()
            own(torch.randn(8, 4)).square().mean().backward()
            inner.step()
        own.zero_grad()
        own(torch.randn(8, 4)).square().mean().backward()
        for weight, other in zip(model.parameters(), own.parameters()):
            weight.grad = other.grad if weight.grad is None else weight.grad + other.grad
    outer.step()
"""
GAN = """
import torch

torch.manual_seed(0)
first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
optimizers = [torch.optim.SGD(first.parameters(), lr=0.5), torch.optim.SGD(second.parameters(), lr=0.125)]
for step in range(6):
    for optimizer in optimizers:
        optimizer.zero_grad()
        second(first(torch.randn(8, 4))).square().mean().backward()
        optimizer.step()
"""

BASE_AND_SUBCLASS = """
import torch

class Clipped(torch.optim.SGD):
    def step(self, closure=None):
        if FAILS and len(done) == 5:
            done.append("failed")
            raise RuntimeError("not now")
        result = super().step(closure)
        if FAILS and len(done) == 9:
            done.append("failed")
            raise RuntimeError("too late")
        return result

done = []
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
torch.optim.SGD(model.parameters(), lr=0.5)  # now torch hooks the step of the base, too
optimizer = Clipped(model.parameters(), lr=0.5)
for step in range(STEPS):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    try:
        optimizer.step()
    except RuntimeError:
        continue
    done.append(step)
print(len([step for step in done if step != "failed"]))
"""


@pytest.mark.warm
@pytest.mark.parametrize(("steps", "fails"), [(40, False), (400, False), (40, True)])
def test_a_step_that_calls_that_of_its_base_counts_once(home: Home, steps: int, fails: bool) -> None:
    code, out, err = home.run(f"FAILS, STEPS = {fails}, {steps}\n{BASE_AND_SUBCLASS}", command=RUN)
    assert code == 0, err
    done = int(out.split()[0])
    assert done == (steps if not fails else steps - 2)
    losses = read_all(home.archives()[0]).series["loss"]
    assert [step for step, _ in losses] == list(range(done))


ODD = """
import torch

class Step:
    def __eq__(self, other):
        return self is other

    def __call__(self, optimizer, closure=None):
        return torch.optim.SGD.step(optimizer, closure)

class Odd(torch.optim.SGD):
    step = Step()

model = torch.nn.Linear(4, 1)
optimizer = Odd(model.parameters(), lr=0.5)
for step in range(40):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print("done")
"""


@pytest.mark.warm
def test_a_step_that_has_no_hash_is_taken(home: Home) -> None:
    code, out, err = home.run(ODD, command=RUN)
    assert (code, out) == (0, "done\n"), err
    assert "automatic tracking" not in err
    assert [step for step, _ in read_all(home.archives()[0]).series["loss"]] == list(range(40))


@pytest.mark.warm
@pytest.mark.parametrize(("script", "said"), [(META, 1), (GAN, 0)], ids=["meta-learning", "two that stay"])
def test_a_run_says_that_steps_of_passing_optimizers_count(home: Home, script: str, said: int) -> None:
    code, _, err = home.run(script, command=RUN)
    assert code == 0, err
    found = read_all(home.archives()[0])
    texts = [event["message"] for kind, _, event in found.events if kind == TEXT]
    assert sum("optimizers come and go" in text for text in texts) == said
    rates = {name: {value for _, value in points} for name, points in found.series.items() if name.startswith("lr")}
    assert all(len(values) == 1 for values in rates.values()), "an optimizer does not get the number of another one"
    assert set.union(*rates.values()) == {0.5, 0.125}
