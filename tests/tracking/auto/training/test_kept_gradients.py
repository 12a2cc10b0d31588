"""Gradients that a script does not zero after a step."""

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
def test_gradients_that_nothing_zeroes_are_noticed(home: Home, before: str, after: str, last: str, kept: bool) -> None:
    script = SCRIPT.format(before=before, after=after, last=last)
    assert home.run(script, command=RUN, GPUTOP_AUTO="1")[0] == 0
    (rank,) = home.only_run().ranks
    assert ("kept_gradients" in rank.facts["parameters"]) is kept


MODES = """
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(getattr(func, "__qualname__", str(func)))
        return func(*args, **(kwargs or {}))

class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(str(func))
        return func(*args, **(kwargs or {}))

seen = []
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.001)
with Functions(), Operations():
    for step in range(12):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
print(len(seen), seen[-20:])
"""


def test_modes_of_the_script_do_not_see_the_look(home: Home) -> None:
    plain = home.run(MODES)
    assert home.run(MODES, command=RUN, GPUTOP_AUTO="1")[:2] == plain[:2]


COMPRESSED = """
import torch
weight = torch.nn.Parameter(torch.eye(4).to_sparse_csr())
dense = torch.nn.Parameter(torch.ones(40, 1))
class Steps(torch.optim.Optimizer):
    def step(self, closure=None):
        dense.data -= 0.01 * dense.grad
optimizer = Steps([weight, dense], {'lr': 0.01})
for step in range(20):
    optimizer.zero_grad()
    dense.square().sum().backward()
    weight.grad = torch.eye(4).to_sparse_csr()
    optimizer.step()
"""


def test_a_gradient_without_memory_of_its_own_stops_no_tracking(home: Home) -> None:
    code, _, error = home.run(COMPRESSED, command=RUN, GPUTOP_AUTO="1")
    assert (code, "automatic tracking stops" in error) == (0, False), error
    assert home.only_run().ranks[0].step == 19
