"""Faults of nn.DataParallel are named first, with evidence and a fix for this run; look-alikes and healthy runs are not."""

from __future__ import annotations

import pytest

from tests.doctor.rules.judged import assert_first, assert_silent
from tests.doctor.scenes.base import ids, play
from tests.doctor.scenes.dp import FAULTS, HEALTHY, LOOK_ALIKES

TOLD = {
    "calls around the wrapper": ("error", "certain", "inside the wrapper (train.py:41)", "instead of the call in train.py:41"),
    "arguments without a tensor": ("error", "certain", "no tensor in the arguments", "DataListLoader"),
    "time first": ("error", "likely", "batch size is 128", "nn.DataParallel(net, dim=1)"),
    "a list of images": ("error", "likely", "8 tensors of 3", "one process per GPU"),
    "memory and work on GPU 0": ("warning", "likely", "GPU 0 holds 29.0 GiB", "loss.unsqueeze(0)"),
    "GPUs that wait for one process": ("warning", "likely", "over the last minute: 41%", "device_ids=[local_rank]"),
    "the model is not on GPU 0": ("error", "certain", "found one of them on device: cpu", 'net.to("cuda:0")'),
    "a tensor that replicas do not share": ("error", "certain", "in replica 1", "register_buffer"),
    "a smaller card among them": ("warning", "certain", "GPU 3: NVIDIA A10, 24.0 GiB", "CUDA_VISIBLE_DEVICES="),
    "one entry in device_ids": ("warning", "certain", "device_ids has one entry: [0]", "all 4 GPUs"),
    "evaluation around the wrapper": ("warning", "likely", "of the time", "the wrapper, not model.module"),
    "evaluation on rank 0 alone": ("warning", "likely", "only rank 0 evaluates", "DistributedSampler(val_set"),
}


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), FAULTS, ids=[fault[1] for fault in FAULTS])
def test_fault_is_the_first_verdict(rule, name, scene, seconds):
    assert assert_first(scene, seconds, rule, TOLD[name]).run == "run-1"


@pytest.mark.parametrize(
    ("rule", "name", "scene", "seconds"), LOOK_ALIKES, ids=[f"{item[0]} {item[1]}" for item in LOOK_ALIKES]
)
def test_a_look_alike_is_not_reported(rule, name, scene, seconds):
    assert all(rule not in ids(said) for said in play(scene, seconds))


@pytest.mark.parametrize(("name", "scene", "seconds"), HEALTHY, ids=[item[0] for item in HEALTHY])
def test_healthy_run_is_left_alone(name, scene, seconds):
    assert_silent(scene, seconds)


def test_every_rule_of_the_family_has_a_fault_and_most_a_look_alike():
    assert {item[0] for item in FAULTS} == {f"B{n:02}" for n in (3, 4, 6, 7, 8, 9, 10, 11, 12, 13)}
    assert {item[0] for item in FAULTS} - {item[0] for item in LOOK_ALIKES} == {"B09"}
