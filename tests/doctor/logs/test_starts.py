"""A log to which several starts append (``>>``): the last one is explained, and not what an earlier one ended with."""

from __future__ import annotations

import pytest

from gputop.doctor.findings.finding import Finding, is_problem
from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.scan import LogScan

BANNER = "Using device: cpu\nLoading flowers from /data\n"
SUMMARY = f"""\
{"=" * 60}
train.py FAILED
{"-" * 60}
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_10:00:00
  host      : node7
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 4001)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
{"=" * 60}
"""


def steps(first: int, last: int, form: str = "step {} loss 3.25") -> str:
    return "".join(f"{form.format(step)}\n" for step in range(first, last))


def raised(error: str) -> str:
    return f'Traceback (most recent call last):\n  File "/home/ann/train.py", line 30, in main\n    row = table[key]\n{error}\n'


def told(text: str, piece: int = 1 << 20) -> tuple[Finding, ...]:
    scan, data = LogScan("train.log"), text.encode()
    for at in range(0, len(data), piece):
        scan.feed(data[at : at + piece])
    scan.end()
    return explain([scan]).findings


CRASHED = BANNER + steps(0, 300) + raised("KeyError: 'speaker-7'")


@pytest.mark.parametrize("piece", [1 << 20, 100])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (CRASHED, BANNER + steps(0, 30)),
        (CRASHED + SUMMARY, BANNER + steps(0, 30)),
        (CRASHED, BANNER + "Resuming from checkpoint step_200.pt\n" + steps(201, 240)),
        (BANNER + steps(1, 9, "Epoch {} loss 2.5") + raised("KeyError: 'a'"), BANNER + steps(1, 4, "Epoch {} loss 2.5")),
        (CRASHED + BANNER + steps(0, 300) + raised("KeyError: 'speaker-8'"), BANNER + steps(0, 30)),
        (CRASHED.replace("KeyError: 'speaker-7'", "torch.OutOfMemoryError: CUDA out of memory."), BANNER + steps(0, 30)),
    ],
    ids=["anew", "torchrun", "resumed", "epochs", "two crashes", "a known text"],
)
def test_an_error_that_a_later_start_survived_is_a_remark(first: str, second: str, piece: int) -> None:
    found = told(first + second, piece)
    assert found
    assert {finding.severity for finding in found} == {"info"}
    assert all(finding.title.startswith("An earlier start") for finding in found)
    assert not any(map(is_problem, found))


@pytest.mark.parametrize("summary", ["", SUMMARY])
def test_the_failure_of_the_last_start_is_the_verdict(summary: str) -> None:
    error = "ZeroDivisionError: division by zero"
    found = told(CRASHED + summary + BANNER + steps(0, 40) + raised(error))
    assert "ZeroDivisionError" in found[0].title
    assert found[0].severity == "error"
    assert [finding.title for finding in found[1:]] == ["An earlier start failed with KeyError at train.py:30 (main)"]


@pytest.mark.parametrize(
    "text",
    [
        CRASHED,
        CRASHED + SUMMARY,
        CRASHED + steps(300, 340),
        CRASHED + steps(180, 300),
        raised("KeyError: 'speaker-7'") + BANNER + steps(0, 40),
        CRASHED + "val step 1 loss 2.0\nval step 2 loss 2.0\n",
        CRASHED + BANNER,
    ],
    ids=["the end", "torchrun", "buffered", "another rank's buffer", "all buffered", "an evaluation", "no step yet"],
)
def test_a_failure_that_no_later_start_survived_stays_the_verdict(text: str) -> None:
    assert "KeyError" in told(text)[0].title
    assert told(text)[0].severity == "error"
