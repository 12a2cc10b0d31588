"""H06 says which rank's GPU will be full, and when; of an untracked run, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from gputop.doctor.evidence.memory_growth import MemoryGrowth
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import HeldList, Holdings
from tests.doctor.scenes.base import Scene, check_first_verdict, ids, not_tracked, only_shown, play
from tests.doctor.scenes.near import learning
from tests.doctor.scenes.near import memory as scenes
from tests.samples import GIB


@pytest.mark.parametrize("scene", [scenes.leaks, scenes.leaks_untracked], ids=["tracked", "untracked"])
def test_it_names_the_rank_and_the_time(scene: Scene) -> None:
    found = check_first_verdict("H06", scene, scenes.SECONDS)
    assert found.confidence == "likely"
    (fact,) = found.evidence
    assert "rank 2 on GPU 2" in fact.text
    # 410 s at 1 GiB a minute have left 80 - 26.8 GiB, which take another 53 minutes.
    assert isinstance(fact.value, int)
    assert 2900 < fact.value < 3600


@pytest.mark.parametrize("scene", [scenes.keeps_everything, not_tracked(scenes.keeps_everything)], ids=["tracked", "untracked"])
def test_the_memory_of_the_machine_may_become_full(scene: Scene) -> None:
    (found,) = (finding for finding in play(scene, scenes.HOST_SECONDS)[-1] if finding.id == "H06")
    assert found.confidence == "possible"
    assert found.title == "The machine will run out of memory in about 15m if this goes on"
    # 4 GiB and 0.1 GiB a second: 5 GiB after the warm-up of 10 s, and 10.9 GiB in the last second.
    assert found.evidence[0].text == "process 4002 grew from 5.0 GiB to 10.9 GiB in 59s"
    assert "available" in found.evidence[-1].text


def with_list(base: Scene, per_shot: int, pid: int = 4002) -> Scene:
    """A process holds a list of tensors that grows by this many from one snapshot to the next."""

    def scene(number: int) -> Snapshot:
        shot = base(number)
        held = Holdings(lists=(HeldList("losses", 100 + per_shot * number),))
        processes = [replace(item, held=held) if item.pid == pid else item for item in shot.processes]
        return replace(shot, processes=tuple(processes))

    return scene


@pytest.mark.parametrize(
    ("base", "seconds"),
    [(scenes.leaks_untracked, scenes.SECONDS), (not_tracked(scenes.keeps_everything), scenes.HOST_SECONDS)],
    ids=["of a GPU", "of the machine"],
)
def test_the_list_that_grows_along_is_named(base: Scene, seconds: int) -> None:
    (found,) = (finding for finding in play(with_list(base, 10), seconds)[-1] if finding.id == "H06")
    text = f"the list losses of process 4002 grew from 100 to {100 + 10 * (seconds - 1)} elements"
    assert [fact.text for fact in found.evidence if fact.source == "/proc/4002/mem"] == [text]
    (found,) = (finding for finding in play(with_list(base, 0), seconds)[-1] if finding.id == "H06")
    assert not [fact for fact in found.evidence if fact.source == "/proc/4002/mem"]


def test_the_growth_that_is_named_is_that_of_the_whole_span() -> None:
    found = check_first_verdict("H06", scenes.leaks, scenes.SECONDS)
    # 1 GiB a minute from 20 GiB on: 21 GiB after the warm-up of a minute, and 26.8 GiB after 410 s.
    assert found.evidence[0].text.startswith("rank 2 on GPU 2: 21.0 GiB to 26.9 GiB in 5m"), found.evidence[0].text


@pytest.mark.parametrize(
    "scene",
    [scenes.buffer_gets_full, scenes.reads_a_mapped_file, scenes.grows_a_little],
    ids=["a buffer that is full", "a mapped file", "a little"],
)
def test_memory_that_is_not_lost_does_not_fill_the_machine(scene: Scene) -> None:
    assert all("H06" not in ids(found) for found in play(scene, scenes.HOST_SECONDS))


def slowly(per_s: float, *, levels_off_s: float = math.inf, **more: Callable[[int, int], float]) -> Scene:
    """An untracked run that prints its loss and takes this many more GiB a second, in a machine with 20 GiB left."""
    base = only_shown(learning.run_with(learning.falls, **more), {"source": "log"})

    def scene(second: int) -> Snapshot:
        shot = base(second)
        seconds = second if levels_off_s == math.inf else levels_off_s * (1 - math.exp(-second / levels_off_s))
        grown = int(per_s * seconds * GIB)
        host = replace(shot.host, memory_available_bytes=20 * GIB - grown)
        processes = tuple(replace(process, memory_rss_bytes=4 * GIB + grown) for process in shot.processes)
        return replace(shot, host=host, processes=processes)

    return scene


SLOW = 0.002
"""2 MiB a second: 20 GiB last for almost 3 hours."""


@pytest.mark.parametrize(
    ("scene", "seconds", "found"),
    [
        (slowly(SLOW), 110, True),
        (slowly(SLOW), 85, False),
        (slowly(0.0012), 110, False),
        (slowly(2 * SLOW, levels_off_s=60), 110, False),
        (slowly(2 * SLOW, levels_off_s=95), 110, False),
        (slowly(2 * SLOW, levels_off_s=180), 110, True),
        (slowly(SLOW, mean_reward=lambda rank, step: 3.0), 110, False),
        (slowly(SLOW, epoch=lambda rank, step: 1.0), 110, False),
        (slowly(SLOW, epoch=lambda rank, step: 1.0 + step // 100), 110, True),
    ],
    ids=[
        *("even", "too soon", "lasts for long", "a cache that fills", "one that fills slowly", "hardly less each time"),
        *("a replay buffer", "a first epoch", "a later epoch"),
    ],
)
def test_an_even_growth_shows_sooner(scene: Scene, seconds: int, found: bool) -> None:
    said = [item for item in play(scene, seconds)[-1] if item.id == "H06"]
    assert bool(said) is found
    assert all((item.severity, item.confidence) == ("info", "possible") for item in said)


def in_jumps(size_gib: float, *seconds: int) -> Scene:
    """The same for memory that grows at once at these seconds, as for a cache; another program fills the machine."""
    flat = slowly(0.0)

    def scene(second: int) -> Snapshot:
        grown = int(size_gib * GIB) * sum(second >= at for at in seconds)
        shot = flat(second)
        host = replace(shot.host, memory_available_bytes=20 * GIB - int(2 * SLOW * second * GIB))
        return replace(
            shot,
            host=host,
            processes=tuple(replace(one, memory_rss_bytes=(one.memory_rss_bytes or 0) + grown) for one in shot.processes),
        )

    return scene


def with_moments(base: Scene, size_gib: float) -> Scene:
    """The same with memory that half of the readings show on top, as of dense gradients in a step."""

    def scene(second: int) -> Snapshot:
        shot = base(second)
        extra = int(size_gib * GIB) * ((second * 7919) % 13 > 5)
        return replace(
            shot, processes=tuple(replace(one, memory_rss_bytes=(one.memory_rss_bytes or 0) + extra) for one in shot.processes)
        )

    return scene


@pytest.mark.parametrize(
    ("scene", "found"),
    [
        (with_moments(slowly(SLOW), 0.06), True),
        (with_moments(slowly(0.0), 0.2), False),
        (with_moments(slowly(2 * SLOW, levels_off_s=50), 0.06), False),
        (with_moments(slowly(2 * SLOW, levels_off_s=30), 0.2), False),
        (in_jumps(0.2, 46, 84), False),
    ],
    ids=["a leak below what comes and goes", "what comes and goes", "a cache that fills", "one that is full", "two caches"],
)
def test_what_comes_and_goes_does_not_hide_what_stays(scene: Scene, found: bool) -> None:
    assert any(item.id == "H06" for item in play(scene, 118)[-1]) is found


def by_the_step(*, crowded: bool = False, reports: bool = True, freed_s: tuple[int, ...] = ()) -> Scene:
    """A tracked run that takes 0.2 MiB a step; while the machine is ``crowded``, it makes a quarter of its steps a second.

    At ``freed_s``, other programs release 2 GiB each.
    """
    base = learning.run_with(learning.falls)

    def scene(second: int) -> Snapshot:
        shot = base(second)
        step = 100 + sum(5 if crowded and 45 <= at < 75 else 20 for at in range(second))
        grown = int(0.0002 * step * GIB)
        freed = 2 * GIB * sum(second >= at for at in freed_s)
        host = replace(shot.host, memory_available_bytes=20 * GIB - grown + freed)
        processes = tuple(replace(process, memory_rss_bytes=4 * GIB + grown) for process in shot.processes)
        runs = tuple(
            replace(run, ranks=tuple(replace(rank, step=step if reports else None) for rank in run.ranks)) for run in shot.runs
        )
        return replace(shot, host=host, processes=processes, runs=runs)

    return scene


@pytest.mark.parametrize(
    ("scene", "found"),
    [
        (by_the_step(), True),
        (by_the_step(crowded=True), True),
        (by_the_step(crowded=True, reports=False), True),
        (by_the_step(freed_s=(60,)), True),
        (by_the_step(freed_s=tuple(range(20, 120, 4))), False),
    ],
    ids=[
        "even",
        "by steps that take longer for a while",
        "by unknown steps",
        "another program ends",
        "the machine gains memory",
    ],
)
def test_memory_that_each_step_takes_grows_evenly_by_the_step(scene: Scene, found: bool) -> None:
    assert any(item.id == "H06" for item in play(scene, 118)[-1]) is found


@pytest.mark.parametrize(("reports", "seconds", "found"), [(True, 72, True), (True, 55, False), (False, 72, False)])
def test_by_the_step_it_shows_sooner(reports: bool, seconds: int, found: bool) -> None:
    said = [item for item in play(by_the_step(reports=reports), seconds)[-1] if item.id == "H06"]
    assert bool(said) is found
    assert all((item.severity, item.confidence) == ("info", "possible") for item in said)


@pytest.mark.parametrize(
    ("scene", "seconds", "found"),
    [
        (with_list(slowly(SLOW), 10, 4000), 85, True),
        (with_list(slowly(SLOW), 0, 4000), 85, False),
        (with_list(slowly(2 * SLOW), 10, 4000), 45, False),
        (with_list(slowly(2 * SLOW), 10, 4000), 65, True),
        (with_list(slowly(2 * SLOW, levels_off_s=60), 10, 4000), 85, True),
        (with_list(slowly(2 * SLOW, levels_off_s=20), 10, 4000), 85, False),
        (with_list(slowly(0.0012), 10, 4000), 130, False),
    ],
    ids=["a list", "one that stays", "too soon", "quickly", "hardly less each time", "a list of little", "lasts for long"],
)
def test_a_list_of_tensors_that_grows_along_shows_it_sooner(scene: Scene, seconds: int, found: bool) -> None:
    said = [item for item in play(scene, seconds)[-1] if item.id == "H06"]
    assert bool(said) is found
    assert all((item.severity, item.confidence) == ("info", "possible") for item in said)


def test_it_is_silent_until_it_has_seen_minutes() -> None:
    said = play(scenes.leaks, scenes.SECONDS)
    first = next(number for number, findings in enumerate(said) if "H06" in ids(findings))
    assert first * scenes.EVERY_S >= 360


def test_a_reading_that_failed_once_costs_none_of_the_minutes() -> None:
    def gap(number: int) -> Snapshot:
        found = scenes.leaks(number)
        if number != 20:
            return found
        unread = [
            replace(process, devices=tuple(replace(use, memory_used_bytes=None) for use in process.devices))
            for process in found.processes
        ]
        return replace(found, processes=tuple(unread[1:]))

    assert "H06" in ids(play(gap, scenes.SECONDS)[-1])


def test_what_ended_is_forgotten() -> None:
    growth = MemoryGrowth()
    last = scenes.leaks(0)
    growth.observe(last)
    (process, *_) = last.processes
    uuid = process.devices[0].device_uuid
    for second, known in ((100.0, True), (200.0, False)):
        growth.observe(replace(last, processes=(), monotonic_s=last.monotonic_s + second))
        assert bool(growth.of(process, uuid)) is known


def test_the_memory_counts_every_two_seconds() -> None:
    growth, first = MemoryGrowth(), scenes.leaks(0)
    (process, *_) = first.processes
    for second in range(12):
        growth.observe(replace(first, monotonic_s=first.monotonic_s + second - 0.1 * (second % 5 == 0)))
    assert sum(stretch.count for stretch in growth.of(process, process.devices[0].device_uuid)) == 6
