"""What a thread, a worker or another rank raised comes before what the main thread or a coordinator says of it."""

from __future__ import annotations

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.meaning.explain import explain
from tests.doctor.logs.test_logs import scan, traceback

STEPS = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30))
LATER = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30, 60))


def findings(text: str) -> tuple[Finding, ...]:
    return explain([scan(text)]).findings


PINNED = "RuntimeError: Pin memory thread exited unexpectedly"


@pytest.mark.parametrize(
    "error", ["RuntimeError: unable to mmap 9 bytes from file <x>: Cannot allocate memory (12)", "KeyError: 7"]
)
def test_the_pinning_thread_s_exception_comes_before_its_end(error: str) -> None:
    in_thread = "Exception in thread Thread-52:\n" + traceback(error, line=8)
    (finding, *_) = findings(STEPS + in_thread + traceback(PINNED, line=41))
    assert error.partition(":")[2].strip() in finding.evidence[0].text
    (alone,) = findings(STEPS + traceback(PINNED))
    assert alone.title == "The thread that pins batches has ended"


def test_an_error_that_the_run_survived_is_not_what_ended_the_pinning_thread() -> None:
    skipped = traceback("KeyError: 'x'", line=8) + "skipping this sample\n"
    (finding, *_) = findings(STEPS + skipped + LATER + traceback(PINNED))
    assert finding.title == "The thread that pins batches has ended"


MISSING = "RuntimeError: Missing key in checkpoint state_dict: head.weight."


def coordinated(*ranks: int, prefix: str = "") -> str:
    """What torch.distributed.checkpoint raises on the coordinator: each rank's frames and exception in one message."""
    parts = [
        f"Traceback (most recent call last): (RANK {rank})\n"
        '  File "/opt/lib/python3.12/site-packages/torch/distributed/checkpoint/default_planner.py", line 471, in plan\n'
        '    raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")\n'
        f"{MISSING}\n"
        for rank in ranks
    ]
    listed = ", ".join(map(str, ranks))
    text = traceback(
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:"
        f"dict_keys([{listed}])\n{''.join(parts)}"
    )
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
@pytest.mark.parametrize("ranks", [(0,), (0, 1, 2, 3)])
def test_the_exceptions_of_ranks_within_a_coordinator_s_are_read(ranks: tuple[int, ...], prefix: str) -> None:
    (finding, *_) = findings(coordinated(*ranks, prefix=prefix))
    assert finding.title == "The distributed checkpoint lacks head.weight"
    assert any("train.py:41" in fact.text for fact in finding.evidence)


def test_a_rank_s_own_part_of_it_is_read() -> None:
    part = coordinated(2).partition("ranks:dict_keys([2])\n")[2]
    (finding, *_) = findings("loading the checkpoint\n" + part)
    assert finding.title == "The distributed checkpoint lacks head.weight"


def test_an_unknown_exception_of_a_rank_is_shown_with_the_coordinator_s_line() -> None:
    (finding, *_) = findings(coordinated(0, 1).replace(MISSING, "KeyError: 'scheduler'"))
    assert "KeyError" in finding.title
    assert "train.py:41" in finding.title


def test_a_quoted_source_line_is_not_an_error_if_the_frames_are_missing() -> None:
    quoted = '    raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")\n'
    assert findings(STEPS + quoted + LATER) == ()
    assert findings(STEPS + quoted) == ()
