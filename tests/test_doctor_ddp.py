"""Faults of DDP and of data are named first, with evidence and a fix for this run; look-alikes and healthy runs are not."""

from __future__ import annotations

import pytest

from gputop.doctor.diagnosis import Doctor

from .doctor_scenes import ids, play
from .doctor_scenes_ddp import FAULTS, HEALTHY, LOOK_ALIKES, POSSIBLE, untracked_ddp

TOLD = {
    "calls around DDP": ("error", "certain", "called GPT inside the wrapper (train.py:88), on all 4 ranks", "in train.py:88"),
    "calls around DDP, weights unknown": ("error", "likely", "backwards that DDP reduced", "in train.py:88"),
    "double() after wrapping": ("error", "certain", "wrapped as float32, now float64", "torch.optim.SGD(model.parameters()"),
    "no wrapper": ("error", "certain", "0 collectives that could average gradients", "DDP(model.to(local_rank)"),
    "no wrapper, the loss is reduced": ("error", "likely", "the weights differ between the ranks", "DDP(model.to(local_rank)"),
    "no_sync inverted": (
        "error",
        "certain",
        "optimizer steps came after a backward that DDP did not reduce",
        "(i + 1) % 4 == 0",
    ),
    "every micro-batch is reduced": ("warning", "likely", "takes 20% of a step", "model.no_sync()"),
    "the same batches": ("error", "certain", "all 4 ranks read the same batch", "batch_size=64, sampler=sampler"),
    "the whole data set on each rank": ("warning", "likely", "782 batches of 64: 50000 samples", "DistributedSampler(dataset"),
    "no set_epoch": ("warning", "certain", "epochs 0-2 began with the same batches", "sampler.set_epoch(epoch)"),
    "unequal lengths": ("error", "likely", "338 / 327 / 327 / 327", "ReduceOp.MIN"),
    "one rank ran out of data": ("error", "certain", "rank 1 came to the end of the data", "Join([model])"),
    "rank 0 evaluates through DDP": ("error", "certain", "rank 0 waits at train.py:120 evaluate", "evaluate(model.module)"),
    "counts that cross": ("error", "likely", "rank 0 is ahead in Broadcast, rank 1 in AllReduce", "DETAIL"),
    "other shapes": ("error", "certain", "with sizes [11, 64]", "broadcast_object_list"),
    "unused parameters": ("error", "certain", "did not receive grad for rank 0: 2 3", "find_unused_parameters=True"),
    "ready twice": ("error", "certain", "ready only once", "use_reentrant=False"),
    "a needless search": ("info", "likely", "no parameter went unused", "without find_unused_parameters"),
    "two rows for BatchNorm": ("info", "likely", "2 rows for each rank", "convert_sync_batchnorm"),
    "NaN on rank 2": ("error", "certain", "rank 2: NaN", "dist.all_reduce(mean"),
    "a checkpoint of the wrapper": ("error", "certain", "module.conv1.weight", "consume_prefix_in_state_dict_if_present"),
    "every rank saves": ("warning", "likely", "/data/out/last.pt", "dist.get_rank() == 0"),
    "wrapped on the CPU": ("error", "certain", "only work with single-device", "to(local_rank)"),
    "gloo with GPUs": ("warning", "certain", "backend is gloo", 'init_process_group("nccl"'),
    "gloo with GPUs, from outside": ("warning", "likely", "pt_gloo_runloop on every rank", "torchrun"),
}


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), FAULTS, ids=[fault[1] for fault in FAULTS])
def test_fault_is_the_first_verdict(rule, name, scene, seconds):
    said = play(scene, seconds)[-1]
    assert ids(said)[:1] == [rule], [(item.id, item.title) for item in said]
    severity, confidence, evidence, fix = TOLD[name]
    assert (said[0].severity, said[0].confidence) == (severity, confidence)
    assert evidence in " | ".join(fact.text for fact in said[0].evidence)
    assert fix in said[0].fix
    assert said[0].refuted_by


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), POSSIBLE, ids=[item[1] for item in POSSIBLE])
def test_weak_evidence_is_only_possible(rule, name, scene, seconds):
    said = play(scene, seconds)[-1]
    assert [(item.id, item.confidence) for item in said] == [(rule, "possible")]
    assert "batch_size=64, ...)  # for each rank; 256 together" in said[0].fix


@pytest.mark.parametrize(
    ("rule", "name", "scene", "seconds"), LOOK_ALIKES, ids=[f"{item[0]} {item[1]}" for item in LOOK_ALIKES]
)
def test_look_alike_is_not(rule, name, scene, seconds):
    assert all(rule not in ids(said) for said in play(scene, seconds))


@pytest.mark.parametrize(("name", "scene", "seconds"), HEALTHY, ids=[item[0] for item in HEALTHY])
def test_healthy_run_is_left_alone(name, scene, seconds):
    for second, said in enumerate(play(scene, seconds)):
        assert [(item.id, item.title) for item in said if item.confidence != "possible"] == [], f"at second {second}"


def test_untracked_ranks_are_not_judged_and_it_says_what_would_let_it():
    doctor = Doctor()
    play(untracked_ddp, 20, doctor)
    own = {item.rule: item for item in doctor.abstained if item.rule.startswith("C")}
    assert sorted(own) == ["C03", "C05"]
    assert own["C05"].needs.startswith("gputop run -- ")
    assert "train.py --epochs 90" in own["C05"].needs


def test_every_rule_of_the_family_has_a_fault():
    assert {item[0] for item in (*FAULTS, *POSSIBLE)} == {f"C{number:02}" for number in range(1, 17)}
