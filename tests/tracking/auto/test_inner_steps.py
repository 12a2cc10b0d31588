"""Optimizers that come and go between the steps of one that stays: which steps are those of the run, only the script knows."""

from __future__ import annotations

import sys

import pytest

from tests.tracking.kit import Home, home, read_all

assert home
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
