"""The stream of many hosts as JSON: each snapshot is searched for runs over hosts once, however many lines follow it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gputop.cli.output.hosts_json import StreamLines, once_lines
from gputop.hosts.state import HostStatus
from gputop.hosts.stream import Heard
from gputop.joined import untracked
from gputop.joined.runs import Seen
from tests import samples
from tests.joined.test_untracked import node

HOSTS = 8


def test_a_line_of_one_host_searches_no_snapshot_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []
    meeting = untracked.meeting

    def counted(*given: Any) -> Any:
        searched.append(given)
        return meeting(*given)

    monkeypatch.setattr(untracked, "meeting", counted)
    seen = [node(f"n{number}", range(2 * number, 2 * number + 2), world_size=2 * HOSTS) for number in range(HOSTS)]
    statuses = [HostStatus(one.host, "live") for one in seen]
    lines, said = StreamLines(), []
    for _ in range(2):
        for status, one in zip(statuses, seen, strict=True):
            said.append(json.loads(lines.line(Heard(status, replace(one.snapshot)), statuses)))
    assert len(searched) == 2 * HOSTS, "each snapshot has one run"
    (last,) = said[-1]["untracked_over_hosts"]
    assert [part["host"] for part in last["hosts"]] == [one.host for one in seen]
    (early,) = said[1]["untracked_over_hosts"]
    assert [part["ranks"] for part in early["hosts"]] == [[0, 1], [2, 3]]
    gone = node("n1", range(2, 3), world_size=2 * HOSTS)
    (after,) = json.loads(lines.line(Heard(statuses[1], gone.snapshot), statuses))["untracked_over_hosts"]
    assert after["missing_ranks"] == [3], "a newer snapshot counts"


def machine(seen: Seen, boot_id: str, first_gpu: int) -> Seen:
    """Give a host GPUs, by which it is known."""
    device = replace(samples.device(0), uuid=f"GPU-{first_gpu}")
    host = replace(seen.snapshot.host, source="nvml", boot_id=boot_id, hostname=boot_id)
    return replace(seen, snapshot=replace(seen.snapshot, host=host, devices=(device,)))


def test_a_machine_with_two_names_is_marked_and_its_ranks_count_once() -> None:
    first = machine(node("a", range(2)), "b1", 0)
    seen = [first, replace(first, host="10.0.0.1"), machine(node("b", range(2, 4)), "b2", 4)]
    statuses = [HostStatus(one.host, "live") for one in seen]
    heard = [Heard(status, one.snapshot) for status, one in zip(statuses, seen, strict=True)]
    lines = StreamLines()
    for one in heard:
        lines.line(one, statuses)
    for said in (once_lines(heard), [lines.line(one, statuses) for one in heard]):
        found = [json.loads(line) for line in said]
        assert [one["same_machine_as"] for one in found] == [None, "a", None]
        for one in found:
            (run,) = one["untracked_over_hosts"]
            assert [part["host"] for part in run["hosts"]] == ["a", "b"]
    silent = Heard(HostStatus("10.0.0.1", "refused"))
    assert json.loads(lines.line(silent, statuses))["same_machine_as"] is None, "only a reading shows it"
