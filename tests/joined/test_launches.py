"""Launches over hosts that wait for one of them, before their ranks have met."""

from __future__ import annotations

from dataclasses import replace

from gputop.joined.launches import HOLD_S, waiting_launches
from gputop.joined.runs import Seen
from gputop.joined.troubles import launch_troubles
from gputop.snapshot import JobState, LaunchPart
from tests import samples

NOW = samples.EPOCH + 100.0


def seen(host: str, state: JobState, ended_at: float | None = None, *, current: bool = True, offset_s: float = 0.0) -> Seen:
    part = LaunchPart("x", f"x-{host}", "mine", state, 2, ended_at)
    return Seen(host, replace(samples.snapshot(), runs=(), launches=(part,)), offset_s, current)


def said(*hosts: Seen, unread: tuple[str, ...] = ()) -> list[str]:
    return [text for launch in waiting_launches(hosts, NOW, unread) for text in launch_troubles(launch, unread)]


def test_a_launch_says_which_host_it_waits_for() -> None:
    waits = "on b: what runs on a may wait for it until a timeout"
    assert said(seen("a", "running"), seen("b", "killed", NOW - HOLD_S)) == [f"killed {waits}"]
    assert said(seen("a", "running"), seen("b", "lost")) == [f"lost {waits}"], "when is not known"
    assert said(seen("a", "running"), seen("b", "running", current=False)) == ["b has not been heard from"]
    assert said(seen("a", "running"), unread=("b",)) == ["1 of its 2 hosts has not been heard from; no reading of b"]


def test_a_launch_that_waits_for_no_host_is_not_listed() -> None:
    assert not said(seen("a", "running"), seen("b", "running"))
    assert not said(seen("a", "running")), "the user watches only this host"
    assert not said(seen("a", "running"), seen("b", "failed", NOW - HOLD_S / 2)), "it ends on one host after another"
    assert not said(seen("a", "running"), seen("b", "failed", NOW - 61.0, offset_s=-60.0)), "by our clock"
    assert not said(seen("a", "failed", NOW - 60.0), seen("b", "killed", NOW - 60.0)), "nothing waits"
    trains = seen("a", "running")
    run = replace(samples.snapshot().runs[0], run_id="x")
    trains = replace(trains, snapshot=replace(trains.snapshot, runs=(run,)))
    assert not said(trains, seen("b", "killed", NOW - 60.0)), "its run tells"
    two_names = replace(seen("a", "running"), host="b")
    assert not said(seen("a", "running"), two_names)
