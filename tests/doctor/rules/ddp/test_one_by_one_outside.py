"""Untracked ranks that are seen to average each gradient with a call of its own (E11), and what only resembles it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.whereabouts.records import Doing
from tests.doctor.scenes.base import play
from tests.doctor.scenes.outside import seen_at

Look = Callable[[int], Doing]
STEP = (
    Doing("forward", "train.py:60", "fit"),
    Doing("backward", "train.py:61", "fit"),
    Doing("optimizer", "train.py:63", "fit"),
)


def exchanging(text: str, times: int = 1, rounds: int = 3) -> Look:
    """This many looks of each round are at this line."""
    call = Doing("collective", "train.py:33", "average", text)
    return lambda second: call if second % rounds < times else STEP[second % len(STEP)]


def judged(*looks: Look, seconds: int = 60) -> Finding | None:
    return next((item for item in play(seen_at(*looks), seconds)[-1] if item.id == "E11"), None)


@pytest.mark.parametrize(
    "text",
    [
        "dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)",
        "torch.distributed.all_reduce(p.grad)",
        "td.all_reduce(grad)",
        "works.append(dist.all_reduce(self.params[i].grad, async_op=True))",
    ],
)
def test_ranks_that_are_often_seen_at_the_call_for_one_gradient_average_them_one_by_one(text: str) -> None:
    finding = judged(exchanging(text), exchanging(text))
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title == "Gradients are averaged one by one: a call of all_reduce for each takes 32% of the time"
    assert f"the main thread of rank 1 was at train.py:33 in average: `{text}`" in finding.evidence[1].text
    assert "DistributedDataParallel" in finding.fix


ONE = "dist.all_reduce(p.grad)"


@pytest.mark.parametrize(
    "looks",
    [
        (exchanging("dist.all_reduce(flat)"),) * 2,
        (exchanging("dist.all_reduce(grads)"),) * 2,
        (exchanging("dist.all_reduce(g)"),) * 2,
        (exchanging("dist.all_reduce(loss.detach())"),) * 2,
        (exchanging("dist.all_gather(parts, p.grad)"),) * 2,
        (exchanging(ONE, rounds=5),) * 2,
        (exchanging(ONE, times=2), exchanging(ONE, rounds=9)),
        (exchanging(ONE, times=3),) * 2,
        (exchanging(ONE),),
    ],
    ids=[
        "in one call",
        "in one call, by another name",
        "what may be an activation's gradient",
        "a loss",
        "another operation",
        "a fifth of the time",
        "one rank waits for the other",
        "nothing but the exchange: it may hang",
        "one process",
    ],
)
def test_other_exchanges_are_left_alone(looks: tuple[Look, ...]) -> None:
    assert judged(*looks) is None


def test_a_few_looks_are_not_enough() -> None:
    looks = exchanging(ONE, 2, 4), exchanging(ONE, 2, 4)
    assert judged(*looks, seconds=19) is None
    assert judged(*looks, seconds=30) is not None
