"""Counters of a container's quota of cores in a log."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.logs.numbers.logs import found

QUOTA = 'msg="container" cpu_count=96 cpu.max="600000 100000"'


def counters(share: float, number: int = 5) -> list[str]:
    return [
        f'step={at * 25} msg="cpu.stat" nr_periods={700 * at} nr_throttled={int(700 * at * share)}'
        for at in range(1, number + 1)
    ]


def test_a_quota_that_stops_the_container(tmp_path: Path) -> None:
    finding = found(tmp_path, [QUOTA, *counters(0.97)], "D02")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "The container's quota of 6 cores stops it in 97% of the periods")
    unsure = found(tmp_path, counters(0.3), "D02")
    assert unsure is not None
    assert (unsure.confidence, unsure.title) == ("possible", "The container's quota stops it in 30% of the periods")


def test_a_quota_that_suffices(tmp_path: Path) -> None:
    assert found(tmp_path, [QUOTA, *counters(0.1)], "D02") is None
    assert found(tmp_path, counters(0.97, 2), "D02") is None, "too few"
    once = ["nr_periods=900 nr_throttled=880", *(f"nr_periods={900 + 700 * at} nr_throttled=880" for at in range(1, 5))]
    assert found(tmp_path, once, "D02") is None, "only before the training"


def test_counters_that_are_printed_once_in_lines_of_their_own(tmp_path: Path) -> None:
    lines = ["$ cat /sys/fs/cgroup/cpu.stat", "nr_periods 18240", "nr_throttled 17693", "throttled_usec 72541771526"]
    finding = found(tmp_path, lines, "D02")
    assert finding is not None
    assert finding.title == "The container's quota stops it in 97% of the periods"
    assert found(tmp_path, [line.replace("18240", "1824").replace("17693", "1769") for line in lines], "D02") is None, (
        "a moment"
    )
    two = [*counters(0.97, 2), *counters(0.01, 2)]
    assert found(tmp_path, two, "D02") is None, "those of two containers"
