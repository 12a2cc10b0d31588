"""The stream of many hosts as JSON: each snapshot is searched for runs over hosts once, however many lines follow it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gputop.cli.output.hosts_json import StreamLines
from gputop.hosts.state import HostStatus
from gputop.hosts.stream import Heard
from gputop.joined import untracked
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
