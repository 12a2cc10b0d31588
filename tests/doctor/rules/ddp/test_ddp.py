"""Faults of DDP and of data are named first, with evidence and a fix for this run; look-alikes and healthy runs are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.process import Repeated
from gputop.snapshot import Snapshot, loss_metric
from gputop.tui.drawing import run_numbers
from tests import samples
from tests.doctor.rules.judged import assert_first, assert_silent
from tests.doctor.scenes import by_hand
from tests.doctor.scenes.base import Scene, ids, play, verdict
from tests.doctor.scenes.by_hand import BY_HAND, CHOSEN, SEPARATE
from tests.doctor.scenes.ddp import (
    FAULTS,
    HEALTHY,
    LOOK_ALIKES,
    POSSIBLE,
    every_micro_batch,
    gan,
    nan_on_rank_2,
    same_batches,
    untracked_ddp,
)
from tests.doctor.scenes.near import connections

TOLD = {
    "calls around DDP": ("error", "certain", "called GPT inside the wrapper (train.py:88), on all 4 ranks", "in train.py:88"),
    "calls around DDP, weights unknown": ("error", "likely", "backward passes that DDP reduced", "in train.py:88"),
    "calls of a method inside DDP": ("error", "certain", "never called the wrapper, on all 4 ranks", 'mode="loss"'),
    "never out of no_sync": ("error", "certain", "did not reduce", "no_sync"),
    "double() after wrapping": ("error", "certain", "wrapped as float32, now float64", "torch.optim.SGD(model.parameters()"),
    "no wrapper and no group": ("error", "certain", "the weights differ between the ranks", "DDP(model.to(local_rank)"),
    "no wrapper": ("error", "certain", "0 collectives that could average gradients", "DDP(model.to(local_rank)"),
    "no wrapper, the loss is reduced": ("error", "likely", "the weights differ between the ranks", "DDP(model.to(local_rank)"),
    "no_sync inverted": (
        "error",
        "certain",
        "optimizer steps followed a backward pass that DDP did not reduce",
        "(i + 1) % 4 == 0",
    ),
    "every micro-batch is reduced": ("warning", "likely", "takes 20% of a step", "model.no_sync()"),
    "the same batches": ("error", "certain", "all 4 ranks read the same batch", "batch_size=64, sampler=sampler"),
    "drawn by the same seed": (
        "error",
        "likely",
        "the losses were the same, to the last digit, in the newest 20 steps",
        "torch.manual_seed(seed + rank)",
    ),
    "the whole data set on each rank": (
        "warning",
        "likely",
        "782 batches of 64; the data set has 50000 samples",
        "DistributedSampler(dataset",
    ),
    "no set_epoch": ("warning", "certain", "epochs 0-2 began with the same batches", "sampler.set_epoch(epoch)"),
    "unequal lengths": ("error", "likely", "338 / 327 / 327 / 327", "ReduceOp.MIN"),
    "one rank ran out of data": ("error", "certain", "rank 1 reached the end of the data", "Join([model])"),
    "rank 0 evaluates through DDP": ("error", "certain", "rank 0 waits at train.py:120 evaluate", "evaluate(model.module)"),
    "counts that cross": ("error", "likely", "rank 0 is ahead in Broadcast, rank 1 in AllReduce", "DETAIL"),
    "other shapes": ("error", "certain", "with sizes [11, 64]", "broadcast_object_list"),
    "unused parameters": ("error", "certain", "did not receive grad for rank 0: 2 3", "find_unused_parameters=True"),
    "ready twice": ("error", "certain", "ready only once", "use_reentrant=False"),
    "a needless search": ("info", "likely", "no parameter went unused", "without find_unused_parameters"),
    "two rows for BatchNorm": ("info", "likely", "2 rows per rank", "convert_sync_batchnorm"),
    "NaN on rank 2": ("error", "certain", "rank 2: NaN", "dist.all_reduce(mean"),
    "a checkpoint of the wrapper": ("error", "certain", "module.conv1.weight", "consume_prefix_in_state_dict_if_present"),
    "every rank saves": ("warning", "likely", "/data/out/last.pt", "dist.get_rank() == 0"),
    "wrapped on the CPU": ("error", "certain", "only work with single-device", "to(local_rank)"),
    "gloo with GPUs": ("warning", "certain", "backend is gloo", 'init_process_group("nccl"'),
    "gloo with GPUs, from outside": ("warning", "likely", "pt_gloo_runloop threads on every rank", "torchrun"),
}


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), FAULTS, ids=[fault[1] for fault in FAULTS])
def test_fault_is_the_first_verdict(rule, name, scene, seconds):
    assert_first(scene, seconds, rule, TOLD[name])


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), POSSIBLE, ids=[item[1] for item in POSSIBLE])
def test_weak_evidence_is_only_possible(rule, name, scene, seconds):
    said = play(scene, seconds)[-1]
    assert [(item.id, item.confidence) for item in said] == [(rule, "possible")]
    assert "batch_size=64, ...)  # per rank; 256 in total" in said[0].fix


@pytest.mark.parametrize(
    ("rule", "name", "scene", "seconds"), LOOK_ALIKES, ids=[f"{item[0]} {item[1]}" for item in LOOK_ALIKES]
)
def test_a_look_alike_is_not_reported(rule, name, scene, seconds):
    assert all(rule not in ids(said) for said in play(scene, seconds))


@pytest.mark.parametrize(
    ("name", "scene", "seconds"), HEALTHY + BY_HAND + CHOSEN, ids=[item[0] for item in HEALTHY + BY_HAND + CHOSEN]
)
def test_healthy_run_is_left_alone(name, scene, seconds):
    assert_silent(scene, seconds)


def test_ranks_that_exchange_gradients_are_distinguished_from_those_that_do_not():
    for rule, name, scene, seconds in by_hand.FAULTS:
        said = play(scene, seconds)[-1]
        assert [(item.id, item.severity) for item in said[:1]] == [(rule, "error")], name
    sure = {name: play(scene, seconds)[-1][0].confidence for _, name, scene, seconds in by_hand.FAULTS}
    assert sure["nothing exchanged"] == "possible"
    assert sure["nothing exchanged for 200 steps"] == "certain"
    assert sure["no process group, and one seed"] == "certain"
    assert sure["a process group, and a seed for each rank"] == "certain"
    assert sure["metrics averaged now and then"] == "likely"
    assert sure["metrics averaged now and then, and no sampler"] == "likely"
    assert sure["predictions gathered, and the data divided"] == "likely"
    assert sure["one rate, which each rank lowers in the end"] == "certain"
    assert sure["all ranks save one file"] == "certain"


@pytest.mark.parametrize(("name", "scene", "seconds"), SEPARATE, ids=[item[0] for item in SEPARATE])
def test_separate_models_that_may_be_meant_are_only_possible(name, scene, seconds):
    assert [(item.id, item.confidence) for item in play(scene, seconds)[-1]] == [("C03", "possible")]


@pytest.mark.parametrize("script", ["ensemble_of_two.py", "lr_sweep.py", "random_search.py", "kfold.py"])
def test_a_script_named_after_several_models_makes_separate_ones_only_possible(script):
    called = calls_itself(by_hand.APART(own=lambda rank: {"sampler": None}), script)
    assert [(item.id, item.confidence) for item in play(called, 60)[-1]] == [("C03", "possible")]


@pytest.mark.parametrize("script", ["remember.py", "train.py --fold 0 --data=/sweep/imagenet", "finetune.py"])
def test_other_words_are_no_hint(script):
    called = calls_itself(by_hand.APART(own=lambda rank: {"sampler": None}), script)
    assert play(called, 60)[-1][0].confidence == "certain"


def calls_itself(scene: Scene, command: str) -> Scene:
    """The same run, started with this command."""

    def called(second: int) -> Snapshot:
        shot = scene(second)
        words = ("python", "-u", *command.split())
        return replace(shot, processes=tuple(replace(process, command=words) for process in shot.processes))

    return called


def test_untracked_ranks_are_not_judged_and_it_says_what_would_let_it():
    doctor = Doctor()
    play(untracked_ddp, 20, doctor)
    own = {item.rule: item for item in doctor.abstained if item.rule.startswith("C")}
    assert sorted(own) == ["C03", "C05"]
    assert own["C05"].needs.startswith("gputop run -- ")
    assert "train.py --epochs 90" in own["C05"].needs


def test_every_rule_of_the_family_has_a_fault():
    assert {item[0] for item in (*FAULTS, *POSSIBLE)} == {f"C{number:02}" for number in range(1, 17)}


# ---- what the loss is called


def calls_it(scene: Scene, *names: str) -> Scene:
    """The same run whose loss has another name: on all ranks, or rank by rank."""

    def renamed(second: int) -> Snapshot:
        base = scene(second)
        (run,) = base.runs
        name = {rank.rank: names[rank.rank % len(names)] for rank in run.ranks}
        ranks = tuple(
            replace(r, metrics={name[r.rank] if metric == "loss" else metric: value for metric, value in r.metrics.items()})
            for r in run.ranks
        )
        points = tuple(replace(p, metric=name[p.rank]) if p.metric == "loss" else p for p in base.points)
        return replace(base, runs=(replace(run, ranks=ranks),), points=points)

    return renamed


@pytest.mark.parametrize("name", ["loss", "train/loss", "loss/train", "train_loss", "Loss/train", "my_loss", "train/ce_loss"])
def test_rules_read_the_loss_by_whatever_name_it_has(name: str) -> None:
    finding = verdict(calls_it(nan_on_rank_2, name), 20)
    assert finding.id == "C11"
    assert [fact.source for fact in finding.evidence] == [f"journal: {name}"] * 2
    same = verdict(calls_it(same_batches, name), 12)
    assert same.id == "C05"
    assert [fact.source for fact in same.evidence if "the same loss" in fact.text] == [f"journal: {name}"]


@pytest.mark.parametrize("names", [("val/loss",), ("eval_loss",), ("loss_scale",), ("train/loss", "loss", "loss", "loss")])
def test_an_evaluations_loss_and_unlike_ones_are_not_compared(names: tuple[str, ...]) -> None:
    assert all("C11" not in ids(said) for said in play(calls_it(nan_on_rank_2, *names), 20))


def test_the_training_loss_is_chosen_in_one_place() -> None:
    assert loss_metric(["val_loss", "train/ce_loss", "lr"]) == "train/ce_loss"
    assert loss_metric(["eval/loss", "train/loss"]) == "train/loss"
    assert loss_metric(["eval/loss", "loss/gan", "a_loss"]) == "loss/gan"
    assert loss_metric(["val_loss", "loss_scale", "lr"]) in ("val_loss", "loss_scale")
    assert loss_metric(["train/loss", "auto/loss"]) == "auto/loss", "that of each step"
    assert loss_metric(["val_loss", "auto/loss/d"]) == "auto/loss/d"
    assert loss_metric(["lr"]) is None
    run = samples.run(2)
    told = replace(run, ranks=tuple(replace(rank, metrics={"loss/train": 0.5, "loss/valid": 0.1}) for rank in run.ranks))
    assert run_numbers.loss(told) == 0.5


def test_connected_ranks_that_print_equal_losses_may_read_the_same_batches() -> None:
    [*_, (found, *_)] = play(connections.joined, 40)
    assert (found.id, found.confidence) == ("C05", "possible")
    assert found.title == "Both ranks print the same losses: they may train on the same batches"
    assert "averages the loss" in found.refuted_by
    assert not any(play(connections.joined_and_each_prints_its_own, 40))


@pytest.mark.parametrize(("values", "found"), [(7, []), (8, ["C05"])])
def test_eight_losses_that_are_equal_are_enough_on_connected_ranks(values: int, found: list[str]) -> None:
    """Each has three digits or more: none is equal by chance, and of an average more of them would be, too."""

    def scene(second: int) -> Snapshot:
        shot = connections.joined(second)
        return replace(shot, process_runs=tuple(replace(run, repeated=Repeated(2, values)) for run in shot.process_runs))

    assert [item.id for item in play(scene, 40)[-1]] == found


def test_ranks_that_nothing_connects_and_print_equal_losses_train_the_same_model() -> None:
    for scene in (connections.apart, connections.in_own_files):
        [*_, (found, *_)] = play(scene, 50)
        assert (found.id, found.confidence) == ("C03", "certain")
        assert found.title == "2 ranks train the same model 2 times: nothing connects them"
    [*_, (own, *_)] = play(connections.each_with_its_own_loss, 50)
    assert (own.confidence, own.title) == ("possible", "Nothing connects the ranks: 2 ranks train 2 separate models")


@pytest.mark.parametrize(("seconds", "found"), [(55, []), (75, ["C03"])])
def test_ranks_that_each_have_a_process_group_of_their_own_may_train_apart(seconds: int, found: list[str]) -> None:
    """Their sockets may have been read before they met."""
    threads = (("pt_gloo_runloop", 1),)
    scene: Scene = lambda second: connections.apart(second, repeated=None, threads=threads)  # noqa: E731
    said = play(scene, seconds)[-1]
    assert [item.id for item in said] == found
    for item in said:
        assert item.confidence == "possible"
        assert "without rank, world_size and init_method" in item.fix


def test_equal_losses_of_ranks_with_groups_of_their_own_are_no_proof() -> None:
    scene: Scene = lambda second: connections.apart(second, threads=(("pt_nccl_watchdg", 1),))  # noqa: E731
    assert [(item.id, item.confidence) for item in play(scene, 75)[-1]] == [("C03", "possible")]


def test_backward_passes_of_several_losses_are_no_micro_batches() -> None:
    assert "C04" in ids(play(every_micro_batch, 30)[-1])
    assert "C04" not in ids(play(gan, 30)[-1])
