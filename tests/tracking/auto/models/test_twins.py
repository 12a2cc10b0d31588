"""A module like the model that is called in most steps and not trained: a teacher, a momentum encoder, a target network."""

from __future__ import annotations

import sys

import pytest

from gputop.tracking.auto.models.twins import Twins
from tests.packages import needs
from tests.tracking.kit import Home, home

pytestmark = [needs("torch"), pytest.mark.warm]
assert home

RUN = (sys.executable, "-m", "gputop", "run", "--", sys.executable)
SCRIPT = """
import copy, torch
class Net(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layer = torch.nn.Linear(8, width)
    def forward(self, x):
        return self.layer(x)
class Other(Net):
    pass
model = Net()
teacher = {teacher}
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(256):
    x = torch.randn(4, 8)
    {call}
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
IN_EACH = "with torch.no_grad(): teacher(x)"


@pytest.mark.parametrize(
    ("teacher", "call", "expected"),
    [
        ("copy.deepcopy(model)", IN_EACH, True),
        ("copy.deepcopy(model).requires_grad_(False).eval()", IN_EACH, True),
        ("copy.deepcopy(model)", f"if step % 4 == 0:\n        {IN_EACH}", False),
        ("copy.deepcopy(model)", "teacher(x)", False),
        ("Net(16)", IN_EACH, False),
        ("Other()", IN_EACH, False),
        ("model", IN_EACH, False),
        ("torch.nn.Identity()", IN_EACH, False),
    ],
)
def test_a_twin_is_called_in_most_steps(home: Home, teacher: str, call: str, expected: bool) -> None:
    assert home.run(SCRIPT.format(teacher=teacher, call=call), command=RUN, GPUTOP_AUTO="1")[0] == 0
    (rank,) = home.only_run().ranks
    assert rank.facts["model"].get("has_twin", False) is expected


def test_each_module_is_looked_at_once_and_few_of_many() -> None:
    """Each layer of a frozen model may be called in each step."""
    import torch

    twins, layers = Twins(), [torch.nn.Linear(2, 2) for _ in range(100)]
    looked = []
    for _ in range(3):
        for layer in filter(twins.is_new, layers):
            twins.look_at(layer, [])
            looked.append(layer)
    assert looked == layers[:64]
