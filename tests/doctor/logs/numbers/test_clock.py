"""When a line of a log was written: the forms of loggers, launchers and people, and a clock that restarts at midnight."""

from __future__ import annotations

import pytest

from gputop.doctor.logs.numbers.clock import Clock, written_at

AT = 10 * 3600 + 15 * 60 + 2.0


@pytest.mark.parametrize(
    "line",
    [
        "[2024-06-11 10:15:02,771] [INFO] [config.py:996:print] step",
        "2024-06-11T10:15:02Z step 3",
        "2024-02-08,10:15:02 | INFO | Train Epoch: 0",
        "2024/06/11 10:15:02 step",
        "01/17/2024 10:15:02 - INFO - __main__ - step 25",
        "06/11 10:15:02 - mmengine - INFO - Epoch(train)",
        "[06/11 10:15:02 d2.utils.events]: eta: 1:00:00",
        "Jun 11 10:15:02 gn14 python[12]: step 3",
        "I0611 10:15:02.123 139800 train.py:12] step",
        "[10:15:02] step 3",
        "10:15:02 | INFO | step 3",
        "(10:15:02) step 3",
        "[rank0]: 10:15:02 step 3",
        "3: 10:15:02 step 3",
    ],
)
def test_the_time_at_the_beginning_of_a_line(line: str) -> None:
    at = written_at(line)
    assert at is not None
    assert at % 86_400 == pytest.approx(AT, abs=1.0)


@pytest.mark.parametrize(
    ("line", "at"),
    [("t=12.5s step 3", 12.5), ("[ 12.503] step 3", 12.503), ("+12.5s step 3", 12.5), ("[00:01:35] epoch 1", 95.0)],
)
def test_the_time_since_the_start(line: str, at: float) -> None:
    assert written_at(line) == at


@pytest.mark.parametrize(
    "line",
    [
        "  5%|5 | 3/10 [00:00:12<00:01:00, 1it/s]",
        "[00:00:12<00:01:00, 2it/s]",
        "100/200 [00:10:20<00:10:20, 1it/s]",
        "step 10 loss 0.3 in 10:15:02",
        "0.123 loss",
        "[12.5] loss",
        "[1/3] 00:12:13",
        "2024-13-41 10:15:02 step",
        "12 s",
        "",
    ],
)
def test_other_numbers_are_no_time(line: str) -> None:
    assert written_at(line) in (None, 12.0) if line == "12 s" else written_at(line) is None


def test_a_clock_without_a_date_begins_anew_at_midnight() -> None:
    times = Clock()
    found = [times.at(line) for line in ("23:59:50 a", "00:00:10 b", "00:00:05 another rank", "no time", "00:01:00 c")]
    assert found == [86_390.0, 86_410.0, None, None, 86_460.0]


def test_dates_are_told_apart() -> None:
    times = Clock()
    before, after = times.at("2024-02-28 23:00:00 a"), times.at("2024-03-01 01:00:00 b")
    assert before is not None
    assert after is not None
    assert after - before == 26 * 3600  # a leap year


def test_dates_between_times_without_one() -> None:
    """As where nvidia-smi is printed between the lines of a script, or a script between those of a launcher."""
    without = ("23:59:50 step 1", "Thu Jun  6 23:59:52 2024", "00:00:05 step 2", "Fri Jun  7 00:00:06 2024", "00:00:07 step 3")
    clock = Clock()
    times = [clock.at(line) for line in without]
    assert [time - 86_390.0 if time is not None else None for time in times] == [0.0, 2.0, 15.0, 16.0, 17.0]
    dated = (
        "2024-06-06 23:59:50 a",
        "23:59:55 b",
        "00:00:05 c",
        "Fri Jun  7 00:00:06 2024",
        "2024-06-09 00:00:06",
        "00:00:10 d",
    )
    clock = Clock()
    times = [clock.at(line) for line in dated]
    first = times[0]
    assert first is not None
    assert [time - first for time in times if time is not None] == [0.0, 5.0, 15.0, 16.0, 172_816.0, 172_820.0]
