"""In which mode a model is called: a script that forgets ``model.train()`` after its evaluation, and what is none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from gputop.facts.setup import Model
from gputop.tracking.auto.models.modes import Modes
from gputop.tracking.describe import describe_model
from tests.packages import imports, needs
from tests.tracking.auto.test_auto import RUN
from tests.tracking.kit import Home, home

if TYPE_CHECKING:
    import torch
import_torch = imports("torch")
pytestmark = [needs("torch"), pytest.mark.warm]
assert home

SCRIPT = """
import time, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
began = time.monotonic()
for step in range(100_000):
    if step == 30:
        net.eval()
        CALL
    TRAIN
    net(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    if time.monotonic() > began + 6:
        break
"""


@pytest.mark.parametrize(("train", "stays"), [("pass", True), ("net.train()", False)])
def test_a_model_that_stays_in_evaluation_mode_is_known(home: Home, train: str, stays: bool) -> None:
    script = SCRIPT.replace("TRAIN", train).replace("CALL", "net(torch.ones(8, 4))")
    code, out, err = home.run(script, command=(*RUN, sys.executable))
    assert code == 0, out + err
    (rank,) = home.only_run().ranks
    model = Model(rank.facts["model"])
    assert model.dropout == 1
    assert (model.evaluation_mode_from is not None) == stays
    assert rank.steps_taken is not None
    assert (model.evaluation_mode_from or 0) < rank.steps_taken


def test_one_call_in_training_mode_refutes_it() -> None:
    modes = Modes()
    modes.called(trains=True)
    assert modes.look(40) == {}
    modes.called(trains=False)
    assert modes.look(80) == {"evaluation_mode_from": 40}
    assert modes.look(120) == {"evaluation_mode_from": 40}, "no call says nothing"
    modes.called(trains=False)
    modes.called(trains=True)
    assert modes.look(160) == {}


def test_a_part_that_is_trained_in_evaluation_mode_is_counted() -> None:
    class Sorter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.loaded = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.2), torch.nn.Dropout(0.0)).eval()
            self.head = torch.nn.Sequential(torch.nn.Dropout(0.2), torch.nn.Linear(4, 2))

    def off(model: torch.nn.Module) -> int | None:
        return Model(describe_model(model, [])).dropout_off

    model = Sorter()
    assert off(model) == 1
    assert off(model.eval()) is None, "the model itself is in evaluation mode, too"
    assert off(model.train()) is None
    model.loaded.eval().requires_grad_(False)
    assert off(model) is None, "what is not trained may be in any mode"
    model.train().requires_grad_(True).head[0].eval()
    assert off(model) is None, "a layer alone is switched off on purpose"
    model.loaded.eval()[1].train()
    assert off(model) is None, "a layer that still drops values is not off"
