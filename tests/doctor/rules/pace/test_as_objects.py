"""Untracked ranks that are seen to pass gradients on as pickled objects (E09), and what only resembles it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.whereabouts.records import Activity, Doing
from tests.doctor.scenes.base import play
from tests.doctor.scenes.outside import seen_at

Look = Callable[[int], Doing]
STEP: tuple[Activity, ...] = ("forward", "backward", "optimizer")
GATHER = "dist.all_gather_object(everyone, grads)"


def exchanging(text: str, function: str = "average", times: int = 2, activity: Activity = "collective") -> Look:
    """Of six looks, this many are at this line."""
    call = Doing(activity, "train.py:33", function, text)
    return lambda second: call if second % 6 < times else Doing(STEP[second % 3], "train.py:60", "fit")


def judged(*looks: Look, seconds: int = 60) -> Finding | None:
    return next((item for item in play(seen_at(*looks), seconds)[-1] if item.id == "E09"), None)


@pytest.mark.parametrize(
    ("text", "function", "activity"),
    [
        (GATHER, "average_gradients", "collective"),
        ("dist.broadcast_object_list(boxed, src=0)", "sync_model", "collective"),
        ("all_gather_object(out, [p.grad.cpu() for p in net.parameters(…", "step", "collective"),
        ("total = comm.allreduce(grads)", "step", "other"),
        ("payload = pickle.dumps(model.state_dict())", "share", "files"),
        ("conn.send([p.grad for p in model.parameters()])", "exchange", "other"),
    ],
)
def test_ranks_that_are_often_seen_to_pickle_gradients_average_them_by_hand(
    text: str, function: str, activity: Activity
) -> None:
    finding = judged(exchanging(text, function, 2, activity), exchanging(text, function, 2, activity))
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title == "Gradients are averaged by hand, as pickled objects: that takes 30% of the time"
    assert f"the main thread of rank 1 was at train.py:33 in {function}: `{text}`" in finding.evidence[1].text


def test_it_is_likely_if_it_takes_more_than_half_of_the_time_on_each_rank() -> None:
    both = judged(exchanging(GATHER, times=4), exchanging(GATHER, times=4))
    one = judged(exchanging(GATHER, times=4), exchanging(GATHER, times=2))
    assert both is not None
    assert one is not None
    assert (both.confidence, one.confidence) == ("likely", "possible")
    server = judged(*[exchanging("server.send(gradients)", "push", times=4, activity="other")] * 2)
    assert server is not None
    assert server.confidence == "possible", "a parameter server may be meant"


@pytest.mark.parametrize(
    "looks",
    [
        [exchanging(GATHER)],
        [exchanging(GATHER), exchanging(GATHER, times=1)],
        [exchanging(GATHER), exchanging(GATHER, times=6)],
        [exchanging("dist.all_gather_object(scores, metrics)", "evaluate")] * 2,
        [exchanging("dist.all_reduce(flat_grads)")] * 2,
        [exchanging("comm.Allreduce(MPI.IN_PLACE, grads)", activity="other")] * 2,
        [exchanging("episodes.put(rollout)", "play", activity="other")] * 2,
        [exchanging("params = inbox.get()", "follow", activity="other")] * 2,
    ],
    ids=[
        "one process",
        "one rank is late, and the other waits for it",
        "one rank stands there",
        "metrics are gathered",
        "gradients are averaged as one tensor",
        "gradients are averaged by MPI's own types",
        "actors send what they play",
        "a rank waits for new weights",
    ],
)
def test_what_takes_no_time_by_itself_or_is_no_gradient_is_left_alone(looks: list[Look]) -> None:
    assert judged(*looks) is None
