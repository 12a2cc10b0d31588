"""Which of several modules a training's facts describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from gputop.tracking.auto.models.described import DescribedModel
from gputop.tracking.auto.readings import ddp
from tests.packages import imports

if TYPE_CHECKING:
    import torch
import_torch = imports("torch")


def taken(described: DescribedModel, *modules: Any) -> int | None:
    """Offer these as outermost modules, all of whose weights are trained; return the size of the model that is described."""
    described.take(modules, {id(item) for module in modules for item in module.parameters()}, [])
    fact = described.fact()
    return None if fact is None else fact["parameters"]


def test_the_module_with_the_most_trained_parameters_is_described() -> None:
    described = DescribedModel(torch)
    small, large = torch.nn.Linear(2, 1), torch.nn.Linear(9, 1)
    assert taken(described) is None
    assert taken(described, small) == 3
    assert taken(described, large, small) == 10
    assert taken(described, small) == 10, "a smaller one that comes later is not the model"


def test_a_model_that_is_gone_gives_way_to_a_smaller_one() -> None:
    described = DescribedModel(torch)
    large = torch.nn.Linear(9, 1)
    assert taken(described, large) == 10
    del large
    described.forget_dead()
    assert described.is_unknown()
    small = torch.nn.Linear(2, 1)
    assert taken(described, small) == 3


@pytest.mark.parametrize(
    ("arguments", "elements"),
    [
        (lambda: ([torch.ones(3, 4)], object()), 12),
        (lambda: (torch.ones(5), object()), 5),
        (lambda: ([[torch.ones(8), torch.ones(8)]], [torch.ones(8)]), 8),
        (lambda: (torch.ones(16), torch.ones(8), object()), 8),
        (lambda: ([torch.ones(2)], [[torch.ones(2), torch.ones(7)]]), 7),
        (lambda: ([],), 0),
        (lambda: (), 0),
    ],
)
def test_the_largest_tensor_that_a_rank_passes_on_is_its_own(arguments: Callable[[], tuple[Any, ...]], elements: int) -> None:
    passed_on = ddp.PassedOn()
    passed_on.note(arguments(), reduces=False)
    assert passed_on.counts() == {"largest": elements, "reduced": 0}
    passed_on.note(([torch.ones(1)],), reduces=True)
    passed_on.note(([torch.ones(2)],), reduces=True)
    assert passed_on.counts() == {"largest": max(2, elements), "reduced": 3}
