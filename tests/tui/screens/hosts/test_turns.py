"""What arrives from several hosts, and when the screen processes it: answers reach their screen, and keys get their turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gputop.hosts.state import HostStatus
from gputop.snapshot import Run, Snapshot
from gputop.tui.fleet import Fleet
from gputop.whereabouts.records import WhereQuestion
from tests.joined.test_runs import two_hosts
from tests.tui.kit import text_of
from tests.tui.screens.hosts.kit import HostStill, hosts_app, live, until, working
from tests.tui.screens.test_where import answer

HOSTS = 8
TURNS = 400


class Notifying(HostStill):
    """A host that says so when something has arrived."""

    def start(self, notify: Callable[[], object]) -> None:
        self.notify = notify
        notify()


class Answering(Notifying):
    """A host that knows where its ranks are."""

    def ask(self, question: object) -> None:
        super().ask(question)
        self.notify()

    def take_answers(self) -> list[object]:
        found: list[object] = [answer(one.run_id) for one in self.asked if isinstance(one, WhereQuestion)]
        self.asked.clear()
        return found


async def test_an_answer_reaches_the_screen_over_a_host() -> None:
    app = hosts_app(Answering(live("a"), *working("a", 1)), Answering(live("b"), *working("b", 1)))
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, app, "2 hosts · 16 GPUs")
        await pilot.press("enter")
        await until(pilot, app, "ON a")
        await pilot.press("w")
        await until(pilot, app, "Ranks 0-2, 4-7 wait in all_reduce #412")


class Busy(Notifying):
    """A host that has one more snapshot whenever one was taken, each of which takes a while to process."""

    turns: list[str]

    def __init__(self, status: HostStatus, turns: list[str], *snapshots: Snapshot) -> None:
        super().__init__(status, *snapshots)
        self.turns = turns

    def drain(self) -> list[Snapshot]:
        self.turns.append(self.link.host)
        time.sleep(0.02)
        if len(self.turns) < TURNS:
            self.notify()
        taken: Sequence[Snapshot] = self.waiting
        newest = taken[-1]
        self.waiting = [replace(newest, sequence=newest.sequence + 1, monotonic_s=newest.monotonic_s + 1)]
        return list(taken)


async def test_a_key_is_answered_while_hosts_send_more_than_the_screen_can_process() -> None:
    turns: list[str] = []
    feeds = [Busy(live(f"node{number}"), turns, *working(f"node{number}", 1)) for number in range(HOSTS)]
    app = hosts_app(*feeds)
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert "help" in text_of(app).splitlines()[0]
        assert len(turns) < TURNS


def test_the_first_judgement_of_many_hosts_is_spread_over_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    feeds: Any = [HostStill(live(f"node{number}"), *working(f"node{number}", 1)) for number in range(HOSTS)]
    fleet = Fleet(feeds)
    while fleet.take_in():
        pass
    monkeypatch.setattr("gputop.tui.fleet.TURN_S", -1.0)  # a turn ends after one host
    fleet.judge()
    judged = [sum(machine.doctor.doctor is not None for machine in fleet.machines) for _ in range(HOSTS) if fleet.take_in()]
    assert judged == list(range(1, HOSTS + 1))


def test_runs_over_hosts_are_joined_over_several_turns_although_each_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TURN_S", -1.0), ("JUDGED_EVERY_S", 0.0), ("JUDGED_SELDOM_S", 0.0)):
        monkeypatch.setattr(f"gputop.tui.fleet.{name}", value)
    numbers = range(4)
    feeds: Any = [
        HostStill(
            live(one.host), replace(one.snapshot, runs=tuple(_numbered(run, at) for run in one.snapshot.runs for at in numbers))
        )
        for one in two_hosts()
    ]
    fleet = Fleet(feeds)
    turns = 0
    while [len(run.parts) for run in fleet.runs] != [len(feeds) for _ in numbers]:
        assert fleet.take_in()
        turns += 1
        assert turns < TURNS
    assert turns > len(numbers), "a turn joins one run: keys need not wait for all of them"


def _numbered(run: Run, number: int) -> Run:
    return replace(run, run_id=f"{run.run_id}-{number}")
