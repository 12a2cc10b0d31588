"""How much a step works on, and when that changed: layers that thaw, larger inputs, several calls of the model in one step."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from gputop.facts.measured import Workload as Stated
from gputop.tracking.auto.readings import workload
from gputop.tracking.auto.readings.workload import Workload
from tests.packages import imports
from tests.tracking.auto.test_auto import RUN
from tests.tracking.kit import Home, home

pytestmark = pytest.mark.warm
if TYPE_CHECKING:
    import torch
import_torch = imports("torch")
assert home


def changes(found: Workload) -> list[tuple[int, int, int | None, int | None]]:
    return [tuple(change) for change in Stated(found.fact()).changes]


def test_each_change_is_noted_with_the_steps_between_which_it_came() -> None:
    found = Workload()
    assert found.fact() is None
    head, trunk = torch.nn.Linear(4, 2), torch.nn.Linear(4, 4)
    for weight in trunk.parameters():
        weight.requires_grad_(False)
    optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], 0.1)
    found.look(3, optimizer)
    for step in range(4, 12):
        found.inputs.take((torch.zeros(8, 4),), step)
    found.look(11, optimizer)
    found.look(20, optimizer)
    for weight in trunk.parameters():
        weight.requires_grad_(True)
    found.look(40, optimizer)
    for step in range(41, 50):
        found.inputs.take((torch.zeros(8, 4),), step)
        found.inputs.take((torch.zeros(8, 4),), step)  # a rollout calls the model twice
    found.look(50, optimizer)
    assert changes(found) == [(3, 3, 10, 32), (20, 40, 30, 32), (40, 50, 30, 64)]


def test_sentences_of_different_length_are_no_change() -> None:
    found = Workload()
    for step in range(200):
        found.inputs.take((torch.zeros(4, 40 + step * 7 % 9),), step)
        if step % 20 == 19:
            found.look(step, None)
    assert [row[:3] for row in changes(found)] == [(19, 19, None)]


def test_many_changes_keep_the_first_and_the_newest() -> None:
    found = Workload()
    for step in range(100):
        found.inputs.take((torch.zeros(2**step % 97 + 1),), step)
        found.look(step, None)
    kept = changes(found)
    assert len(kept) == workload.CHANGES_MAX
    assert (kept[0][1], kept[-1][1]) == (0, 99)


def test_a_run_reports_that_it_trains_more(home: Home) -> None:
    code, out, err = home.run(
        """
import torch
torch.set_num_threads(1)
trunk, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
net = torch.nn.Sequential(trunk, head)
for trained in ([head], [trunk, head]):
    for weight in trunk.parameters():
        weight.requires_grad_(trunk in trained)
    optimizer = torch.optim.SGD([weight for part in trained for weight in part.parameters()], 0.1)
    for step in range(10):
        net(torch.zeros(8, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        command=(*RUN, sys.executable),
    )
    assert code == 0, out + err
    (rank,) = home.only_run().ranks
    stated = Stated(rank.facts["workload"]).changes
    assert [change.parameters for change in stated] == [10, 30]
    assert stated[1].after < stated[1].by == 10
