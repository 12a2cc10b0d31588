"""A script may wrap its model in DistributedDataParallel again, for each stage: the facts follow the wrapper in use."""

from __future__ import annotations

import json

import pytest

from tests.packages import needs
from tests.tracking.kit import Home, home

pytestmark = [needs("torch"), pytest.mark.warm]
assert home

STAGES = """
import json, torch, gputop
from torch import distributed as dist
from gputop.tracking.auto import install

torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
wrap = torch.nn.parallel.DistributedDataParallel
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def train(model, optimizer, steps=60, parts=1):
    for number in range(steps):
        optimizer.zero_grad()
        for part in range(parts):
            model(torch.randn(4, 4)).square().mean().backward()
        optimizer.step()


def report(wrapper):
    models = install.tracked().models
    described = models.described
    print(json.dumps({
        "model": described._root() is wrapper,
        "wrapper": (models.describe() or {}).get("wrapper"),
        "ddp": (described.ddp_fact() or {}).get("find_unused_parameters"),
        "gradients": install.tracked().training.gradients.fact(models.judges_ddp()),
        "calls": models.wrapper_calls(),
    }))
"""
KEPT = "first = wrap(model)\noptimizer = make_optimizer(model)\ntrain(first, optimizer)\n"
GONE = KEPT + "del first\n"
ACCUMULATED = "first = wrap(model)\noptimizer = make_optimizer(model)\ntrain(first, optimizer, parts=2)\ndel first\n"
PLAIN = "optimizer = make_optimizer(model)\ntrain(model, optimizer)\n"
NEW = "optimizer = make_optimizer(model)\n"
AGAIN = "second = wrap(model, find_unused_parameters=True)\n"
TRAIN = "train(second, optimizer)\nreport(second)\n"


@pytest.mark.parametrize(
    "script",
    [
        KEPT + AGAIN + TRAIN,
        GONE + AGAIN + TRAIN,
        KEPT + AGAIN + NEW + TRAIN,
        GONE + AGAIN + NEW + TRAIN,
        PLAIN + AGAIN + NEW + TRAIN,
        ACCUMULATED + AGAIN + "train(second, optimizer, parts=2)\nreport(second)\n",
    ],
    ids=["kept", "gone", "kept-new-optimizer", "gone-new-optimizer", "plain-first", "accumulated"],
)
def test_the_facts_follow_the_wrapper_that_trains_now(home: Home, script: str) -> None:
    code, said, error = home.run(STAGES + script)
    assert code == 0, error
    found = json.loads(said)
    assert found["model"], "the described model is the new wrapper"
    assert found["wrapper"] == "DistributedDataParallel"
    assert found["ddp"] is True
    assert found["gradients"]["unsynced_steps"] == 0
    assert found["calls"]["bypassed"] == 0


def test_a_return_to_an_earlier_wrapper_is_followed_too(home: Home) -> None:
    code, said, error = home.run(
        STAGES + KEPT + AGAIN + "train(second, optimizer)\ntrain(first, optimizer, 400)\nreport(first)\n"
    )
    assert code == 0, error
    found = json.loads(said)
    assert found["model"]
    assert found["ddp"] is False


def test_two_wrapped_models_that_train_in_turn_stay_apart(home: Home) -> None:
    """The wrapper of another model takes no one's place."""
    code, said, error = home.run(
        STAGES
        + """
large, small = wrap(model), wrap(torch.nn.Linear(4, 1), find_unused_parameters=True)
optimizers = make_optimizer(large), make_optimizer(small)
for number in range(60):
    train(large, optimizers[0], 1)
    train(small, optimizers[1], 1)
report(large)
"""
    )
    assert code == 0, error
    found = json.loads(said)
    assert found["model"]
    assert found["ddp"] is True, "the one that was found last"


METHODS = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def loss(self, inputs):
        return self.last(self.first(inputs)).square().mean()

    def forward(self, inputs):
        return self.loss(inputs)


wrapper = wrap(Model())
optimizer = make_optimizer(wrapper)
for number in range(40):
    optimizer.zero_grad()
    {call}(torch.randn(4, 4)).backward()
    optimizer.step()
gradients = install.tracked().training.gradients.fact(install.tracked().models.judges_ddp())
print(json.dumps([gradients, install.tracked().models.wrapper_calls(), wrapper._get_ddp_logging_data()["iteration"]]))
"""


@pytest.mark.parametrize(
    ("call", "averages"),
    [("wrapper", True), ("wrapper.forward", True), ("wrapper.module", False), ("wrapper.module.loss", False)],
)
def test_what_ddp_has_averaged_stays_known(home: Home, call: str, averages: bool) -> None:
    code, said, error = home.run(STAGES + METHODS.format(call=call))
    assert code == 0, error
    gradients, calls, iteration = json.loads(said)
    assert (gradients["synced_backwards"], gradients["unsynced_steps"]) == (
        (gradients["steps"], 0) if averages else (0, gradients["steps"])
    )
    assert (iteration > 0) is averages
    assert (calls is None) is (call == "wrapper.module.loss"), calls
