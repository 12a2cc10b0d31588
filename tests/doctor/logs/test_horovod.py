"""Horovod's warnings that ranks stand still, in its older and newer forms."""

from __future__ import annotations

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.meaning.explain import explain
from tests.doctor.logs.test_logs import scan, traceback

HEADER = (
    "[2020-11-21 04:11:09.{rank}: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be reduced, "
    "gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
)
MISSING = "[1,0]<stderr>:[2019-06-02 10:20:00.1: W horovod/common/operations.cc:588] HorovodAllreduce_w_0 [missing ranks: {}]\n"
READY = (
    "WARNING: "
    + HEADER.partition("] ")[2].rstrip()
    + " Stalled ops: HorovodAllreduce_w_0 [ready ranks: {}], b_0 [ready ranks: 1]\n"
)


def only(text: str) -> Finding:
    (finding,) = explain([scan(text)]).findings
    return finding


def test_the_missing_ranks_are_named_without_the_header() -> None:
    finding = only(MISSING.format("2") + MISSING.format("2"))
    assert (finding.id, finding.confidence) == ("G01", "possible")
    assert finding.title == "Rank 2 did not reach a collective operation of Horovod in which others wait"


def test_the_missing_ranks_are_named_below_the_header() -> None:
    finding = only("[1,0]<stderr>:" + HEADER.format(rank=0) + MISSING.format("1, 3"))
    assert finding.title.startswith("Rank 1, 3 did not reach")
    assert len(finding.evidence) == 2


def test_ready_ranks_are_never_called_missing() -> None:
    finding = only(READY.format("2"))
    assert finding.title == "Only rank 2 reached a collective operation of Horovod, and waits for the others"
    others = [scan("nothing\n", f"rank-{rank}.log", rank) for rank in range(4)]
    (known,) = explain([scan(READY.format("0, 2")), *others]).findings
    assert known.title.startswith("Only rank 0, 2 reached")
    assert known.evidence[-1].text == "not among them: ranks 1, 3"
    assert "ranks 1, 3" in known.fix


def test_a_stall_that_is_the_first_sign_follows_from_nothing() -> None:
    for text in (HEADER.format(rank=0), MISSING.format("2"), READY.format("2")):
        finding = only(text)
        assert "only what followed" not in finding.cause
        assert "torchrun" not in finding.fix


def test_an_error_on_a_rank_comes_before_the_stall_of_the_others() -> None:
    error = "".join(f"[1,2]<stderr>:{line}\n" for line in traceback("KeyError: 7").splitlines())
    (finding, *_) = explain([scan(error + MISSING.format("2"))]).findings
    assert "KeyError" in finding.title
