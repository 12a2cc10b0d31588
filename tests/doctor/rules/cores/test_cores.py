"""Where the ranks' own threads run, and what NVML did not say: no rule states what is unknown."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gputop.snapshot import Snapshot
from tests.doctor.scenes import pace
from tests.doctor.scenes.base import Scene, check_first_verdict, ids, play, verdict
from tests.doctor.scenes.cores import (
    BESIDE,
    FAR,
    FAULTS,
    HEALTHY,
    LOOK_ALIKES,
    far_socket,
    on_cores,
    one_thread,
    waits_a_little,
)
from tests.doctor.scenes.pace import first_hangs


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), FAULTS, ids=[row[1] for row in FAULTS])
def test_threads_in_the_wrong_place_are_the_first_verdict(rule: str, name: str, scene: Scene, seconds: int) -> None:
    check_first_verdict(rule, scene, seconds)


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), BESIDE, ids=[row[1] for row in BESIDE])
def test_threads_are_reported_next_to_the_wait(rule: str, name: str, scene: Scene, seconds: int) -> None:
    assert rule in ids(play(scene, seconds)[-1])


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), LOOK_ALIKES, ids=[row[1] for row in LOOK_ALIKES])
def test_look_alikes_are_not_reported_at_all(rule: str, name: str, scene: Scene, seconds: int) -> None:
    assert all(rule not in ids(found) for found in play(scene, seconds))


@pytest.mark.parametrize(("name", "scene", "seconds"), HEALTHY, ids=[row[0] for row in HEALTHY])
def test_nothing_is_reported_if_no_rank_waits(name: str, scene: Scene, seconds: int) -> None:
    assert {(item.id, item.title) for found in play(scene, seconds) for item in found} == set()


def test_the_fixes_are_for_this_run() -> None:
    far = verdict(far_socket, 90).fix
    assert far.startswith("torchrun --numa-binding=node ")
    assert "train.py" in far
    assert "..." not in far
    said = next(item for item in play(one_thread, 40)[-1] if item.id == "D04")
    assert said.fix.startswith("OMP_NUM_THREADS=16 torchrun ")
    unknown = verdict(on_cores(waits_a_little, FAR, numa=None), 90).fix
    assert "cpunodebind" not in unknown


@pytest.mark.parametrize("cores", [-math.inf, math.nan, 0.0])
def test_a_quota_that_is_no_number_of_cores_is_no_quota(cores: float) -> None:
    def scene(second: int) -> Snapshot:
        return pace.with_host(pace.quota(second), cpu_quota=cores)

    assert "D02" in ids(play(pace.quota, 20)[-1])
    assert ids(play(scene, 20)[-1]) == []


def links(number: int | None) -> Scene:
    def scene(second: int) -> Snapshot:
        base = first_hangs(second)
        return replace(base, devices=tuple(replace(device, nvlinks_active=number) for device in base.devices))

    return scene


def test_nvlink_is_denied_only_where_nvml_denies_it() -> None:
    stated, unknown = (verdict(links(number), 150) for number in (0, None))
    assert (stated.id, stated.confidence) == ("G02", "likely")
    assert any("no NVLink" in fact.text for fact in stated.evidence)
    assert (unknown.id, unknown.confidence) == ("G02", "possible")
    assert not any("NVLink" in fact.text for fact in unknown.evidence)
    assert "G02" not in ids(play(links(4), 150)[-1])
    assert stated.fix.startswith("NCCL_P2P_DISABLE=1 torchrun ")
    assert "train.py" in stated.fix
    assert "torchrun ..." not in stated.fix
