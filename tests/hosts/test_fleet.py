"""Several hosts at once: each stream is started once, and none after the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gputop.hosts.fleet import Fleet
from gputop.hosts.following import Deliver, Links
from gputop.hosts.state import HostStatus
from tests.patience import DEADLINE_S


class Counted:
    """A stream that notes what is done with it."""

    def __init__(self, host: str, done: list[str], at_start: Callable[[], object], deliver: Deliver) -> None:
        self.status = HostStatus(host)
        self.failures = 0
        self._done = done
        self._at_start = at_start

    def start(self) -> None:
        self._done.append(f"start {self.status.host}")
        self._at_start()

    def keep_wanting(self, command: Mapping[str, Any]) -> None: ...

    def send(self, command: Mapping[str, Any]) -> None: ...

    def close(self) -> None:
        self._done.append(f"close {self.status.host}")


def link(host: str, done: list[str], at_start: Callable[[], object] = lambda: None) -> Links:
    return {host: partial(Counted, host, done, at_start)}


def test_a_host_that_is_added_before_the_start_is_started_once() -> None:
    done: list[str] = []
    fleet = Fleet(link("a", done))
    fleet.add(link("b", done))
    assert done == [], "it waits for the start"
    fleet.start()
    fleet.add(link("c", done))
    assert done == ["start a", "start b", "start c"]


def test_nothing_is_started_after_the_end() -> None:
    done: list[str] = []
    fleet = Fleet(link("a", done))
    fleet.close()
    fleet.start()
    fleet.add(link("b", done))
    assert done == ["close a"]
    assert [stream.status.host for stream in fleet.streams] == ["a"]


def test_a_host_that_is_added_while_others_are_started_is_started_once() -> None:
    from threading import Thread

    done: list[str] = []
    adding = Thread(target=lambda: fleet.add(link("b", done)))
    fleet = Fleet({**link("a", done, adding.start), **link("c", done)})
    fleet.start()
    adding.join(DEADLINE_S)
    assert sorted(done) == ["start a", "start b", "start c"]


def test_a_host_that_connects_says_that_it_has_not_answered() -> None:
    assert HostStatus("a").sentence == "a: connecting. It has not answered yet."
    assert HostStatus("a", "live").sentence == "a: live."
