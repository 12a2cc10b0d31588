"""Gradients that nothing sets to zero after a step."""

from __future__ import annotations

import sys

import pytest

from tests.packages import needs
from tests.tracking.kit import Home, home

pytestmark = [needs("torch"), pytest.mark.warm]
assert home

RUN = (sys.executable, "-m", "gputop", "run", "--", sys.executable)
SCRIPT = """
import torch
torch.manual_seed(0)
model, other = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.001)
second = torch.optim.SGD(other.parameters(), 0.001)
for step in range(40):
    {before}
    model(torch.randn(4, 8)).square().mean().backward()
    {after}
    optimizer.step()
    {last}
"""


@pytest.mark.parametrize(
    ("before", "after", "last", "kept"),
    [
        ("", "", "", True),
        ("", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "", True),
        ("", "model(torch.randn(4, 8)).square().mean().backward()", "", True),
        ("optimizer.zero_grad()", "", "", False),
        ("optimizer.zero_grad(set_to_none=False)", "", "", False),
        ("", "", "model.zero_grad()", False),
        ("", "", "[weight.grad.data.zero_() for weight in model.parameters()]", False),
        ("", "", "model.weight.grad = model.bias.grad = None", False),
        ("optimizer.zero_grad()", "model(torch.randn(4, 8)).square().mean().backward()", "", False),
        ("if step % 2 == 0: optimizer.zero_grad()", "", "", False),
        ("optimizer.zero_grad()", "", "second.zero_grad(); other(torch.randn(4, 8)).mean().backward(); second.step()", False),
        ("", "", "second.zero_grad(); other(torch.randn(4, 8)).mean().backward(); second.step()", False),
    ],
)
def test_gradients_that_nothing_sets_to_zero_are_noticed(home: Home, before: str, after: str, last: str, kept: bool) -> None:
    script = SCRIPT.format(before=before, after=after, last=last)
    assert home.run(script, command=RUN, GPUTOP_AUTO="1")[0] == 0
    (rank,) = home.only_run().ranks
    assert ("kept_gradients" in rank.facts["parameters"]) is kept
