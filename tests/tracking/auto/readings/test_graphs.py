"""Whether the graphs of earlier losses still exist: running means and lists keep them, and nothing of ours does."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from gputop.facts.measured import Graphs as Stated
from gputop.tracking.auto.readings import graphs
from gputop.tracking.auto.readings.graphs import MARKS_MAX, NEWEST, Graphs
from tests.packages import imports
from tests.tracking.auto.test_auto import RUN
from tests.tracking.kit import Home, home

pytestmark = pytest.mark.warm
if TYPE_CHECKING:
    import torch
import_torch = imports("torch")
assert home


@pytest.fixture(autouse=True)
def mark_each_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "EVERY_S", 0.0)


def trained(keep: Callable[[Any, int], object], steps: int = 20, backward: Callable[[Any], Any] = lambda loss: loss) -> Graphs:
    """Train for some steps, with a script that does this with each loss after its backward."""
    found, net = Graphs(), torch.nn.Linear(3, 1)
    for step in range(steps):
        loss = net(torch.ones(2, 3)).pow(2).mean()
        part = backward(loss)
        found.mark(part, step)
        part.backward()
        keep(loss, step)
    return found


def stated(found: Graphs) -> tuple[int, int | None, int | None, int] | None:
    fact = found.fact()
    return None if fact is None else (Stated(fact).kept, Stated(fact).first, Stated(fact).last, Stated(fact).released)


def test_a_loop_that_keeps_numbers_keeps_no_graph() -> None:
    losses: list[float] = []
    found = trained(lambda loss, step: losses.append(loss.item()))
    assert stated(found) is None
    assert len(losses) == 20


def test_a_running_mean_keeps_the_graphs_of_all_losses() -> None:
    mean = [torch.zeros(())]

    def smooth(loss: torch.Tensor, step: int) -> None:
        mean[0] = 0.9 * mean[0] + 0.1 * loss

    found = trained(smooth)
    assert stated(found) == (20 - NEWEST, 0, 19 - NEWEST, 0)
    mean.clear()
    assert stated(found) is None, "nothing of ours keeps them"


def test_a_list_of_losses_keeps_them_also_if_backward_runs_on_a_part() -> None:
    losses: list[torch.Tensor] = []
    assert stated(trained(lambda loss, step: losses.append(loss), backward=lambda loss: loss / 4)) == (18, 0, 17, 0)


def test_a_limited_list_or_one_that_is_emptied_is_known_by_what_it_frees() -> None:
    last: deque[torch.Tensor] = deque(maxlen=6)
    kept, _, _, released = stated(trained(lambda loss, step: last.append(loss))) or (0, 0, 0, 0)
    assert kept < 6
    assert released > 3

    epoch: list[torch.Tensor] = []

    def sums(loss: torch.Tensor, step: int) -> None:
        epoch.append(loss)
        if step == 9:
            epoch.clear()

    assert stated(trained(sums)) == (8, 10, 17, 1)


def test_few_of_many_losses_are_marked_over_the_whole_course() -> None:
    losses: list[torch.Tensor] = []
    kept, first, last, released = stated(trained(lambda loss, step: losses.append(loss), 200)) or (0, 0, 0, 0)
    assert (first, released) == (0, 0)
    assert kept <= MARKS_MAX
    assert last is not None
    assert last > 190


def test_a_weight_alone_is_not_marked_and_a_node_is_marked_once() -> None:
    found, weight = Graphs(), torch.nn.Parameter(torch.ones(3))
    scale = weight.exp().sum()
    for step in range(20):
        loss = scale * 2.0
        found.mark(loss, step)
        loss.backward(retain_graph=True)
    assert stated(found) == (1, 0, 0, 0), "of the node that all losses share, the first mark is the only one"
    for step in range(20):
        found.mark(weight.sum(), step)
        found.mark(weight, step)
        found.mark(weight.detach(), step)


def test_a_loss_lives_no_longer_for_its_mark() -> None:
    found, net = Graphs(), torch.nn.Linear(3, 1)
    loss = net(torch.ones(2, 3)).sum()
    found.mark(loss, 0)
    gone = weakref.ref(loss)
    del loss
    assert gone() is None


def test_what_is_no_tensor_ends_the_marking_and_nothing_else() -> None:
    found = Graphs()
    found.mark(object(), 0)
    assert found.fact() is None


def test_a_run_reports_the_graphs_of_its_evaluations(home: Home) -> None:
    code, out, err = home.run(
        """
import torch
from gputop.tracking.auto.readings import graphs
graphs.EVERY_S = 0.0
torch.set_num_threads(1)
net, kept = torch.nn.Linear(4, 1), []
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for step in range(12):
    loss = net(torch.ones(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    net.eval()
    kept.append(net(torch.ones(8, 4)))
    with torch.no_grad():
        net(torch.ones(8, 4))
    net.train()
""",
        command=(*RUN, sys.executable),
    )
    assert code == 0, out + err
    (rank,) = home.only_run().ranks
    assert Stated(rank.facts["evaluated_graphs"]).kept >= 5
    assert "graphs" not in rank.facts, "those of the losses are gone"


def test_a_run_reports_that_its_script_keeps_all_graphs(home: Home) -> None:
    code, out, err = home.run(
        """
import time, torch
torch.set_num_threads(1)
net, mean = torch.nn.Linear(4, 1), 0.0
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for step in range(12):
    loss = net(torch.ones(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = 0.9 * mean + 0.1 * loss
    time.sleep(0.4)
""",
        command=(*RUN, sys.executable),
    )
    assert code == 0, out + err
    (rank,) = home.only_run().ranks
    fact = Stated(rank.facts["graphs"])
    assert fact.kept >= 1
    assert fact.first in (0, 1)
    assert fact.released == 0
