"""What the variables of untracked ranks show (C01, C03, C05, C06, C10), and of any untracked training (J07)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Activity, Doing, HeldLoader, HeldModels, Holdings
from tests.doctor.scenes.base import Scene, play
from tests.doctor.scenes.near.connections import joined_and_each_prints_its_own
from tests.doctor.scenes.outside import always, outside

NET = HeldModels(("Net",))
DDP = HeldModels(("DistributedDataParallel",), "DistributedDataParallel", replicates=True)
WHOLE = HeldLoader("train_loader", "Photos", "RandomSampler", is_plain=True, batch_size=32, shuffles=True)
DIVIDED = HeldLoader("train_loader", "Photos", "DistributedSampler", False, 32, shuffles=True, replicas=2, sampler_epoch=0)
WRAPPED = Holdings(DDP, DIVIDED, 0, calls_wrapper=True)
BESIDES = Holdings(DDP, replace(DIVIDED, sampler_epoch=3), 3, calls_wrapper=False)
ALONE = Holdings(NET, WHOLE, 0, calls_wrapper=False)
Held = Callable[[int, int], Holdings | None]
_STEP: tuple[Activity, ...] = ("forward", "backward", "backward", "optimizer")


def holding(held: Held | Holdings, base: Scene = joined_and_each_prints_its_own, looks: tuple[Activity, ...] = _STEP) -> Scene:
    """The run of ``base``, whose ranks hold this: the same all the time, or by rank and second."""

    def scene(second: int) -> Snapshot:
        shot = base(second)
        processes = [
            replace(
                process,
                doing=Doing(looks[second % len(looks)], "train.py:40", "main"),
                held=held if isinstance(held, Holdings) else held(number, second),
            )
            for number, process in enumerate(shot.processes)
        ]
        return replace(shot, processes=tuple(processes))

    return scene


def found(scene: Scene, rule: str, seconds: int = 60) -> Finding | None:
    return next((item for item in play(scene, seconds)[-1] if item.id == rule), None)


def one_process(second: int) -> Snapshot:
    """One process that trains and prints."""
    return outside(always("runs"))(second)


@pytest.mark.parametrize(
    ("rule", "held", "title"),
    [
        ("C01", BESIDES, "DDP is bypassed: 2 ranks may train 2 different models"),
        ("C03", ALONE, "2 ranks may train 2 separate models: none is wrapped"),
        ("C04", replace(WRAPPED, exchanges=False), "DDP may always be under no_sync: the ranks drift apart"),
        (
            "C05",
            replace(WRAPPED, loader=WHOLE),
            "Each of the 2 ranks may read the whole data set: an epoch costs 2 times the work",
        ),
    ],
)
def test_what_all_ranks_hold_is_possible_and_comes_first(rule: str, held: Holdings, title: str) -> None:
    first, *_ = play(holding(held), 60)[-1]
    assert (first.id, first.confidence, first.title) == (rule, "possible", title)
    assert first.evidence[0].source == "/proc/4000/mem"
    early = [item for item in play(holding(held), 20)[-1] if item.id == rule]
    assert bool(early) == (rule == "C04"), "not before a second look, unless it stands for many"


def thaws(first: int = 4, later: int = 12, ranks: tuple[int, ...] = (0, 1)) -> Held:
    """The optimizer of these ranks updates more tensors from the 20th second on."""
    return lambda rank, second: replace(WRAPPED, updated=(first, later if second >= 20 and rank in ranks else first))


def test_parameters_that_learn_later_may_be_unknown_to_ddp() -> None:
    finding = found(holding(thaws()), "C02")
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("error", "possible")
    assert finding.title == (
        "8 tensors may have begun to learn after DDP wrapped the model: DDP does not average their gradients"
    )
    assert finding.evidence[0].text == "the optimizer has updated 12 tensors, and 4 when it was first seen"
    assert "wrap it again" in finding.fix


@pytest.mark.parametrize(
    "held",
    [
        replace(WRAPPED, updated=(12, 12)),
        WRAPPED,
        thaws(ranks=(0,)),
        lambda rank, second: replace(WRAPPED, updated=(4, 12) if 30 < second < 36 else (12, 12)),
    ],
    ids=["nothing is added", "unknown", "one rank alone", "wrapped anew soon afterwards"],
)
def test_what_learned_from_the_beginning_or_is_wrapped_anew_is_left_alone(held: Held | Holdings) -> None:
    assert found(holding(held), "C02") is None


def test_what_is_as_it_should_be_is_left_alone() -> None:
    assert not any(play(holding(WRAPPED), 80))
    assert not any(play(holding(lambda rank, second: replace(WRAPPED, epoch=1) if second > 5 else None), 80))


@pytest.mark.parametrize(
    ("rule", "held"),
    [
        ("C01", replace(BESIDES, calls_wrapper=None)),
        ("C01", replace(BESIDES, calls_wrapper=True)),
        ("C01", replace(BESIDES, models=replace(DDP, wrapper="FullyShardedDataParallel"))),
        ("C03", replace(ALONE, calls_wrapper=None)),
        ("C03", replace(ALONE, calls_wrapper=True)),
        ("C03", replace(ALONE, models=replace(NET, wrapper="DeepSpeedEngine"))),
        ("C04", replace(WRAPPED, exchanges=None)),
        ("C04", replace(WRAPPED, exchanges=True)),
        ("C05", replace(WRAPPED, loader=replace(WHOLE, is_plain=False))),
        ("C05", replace(WRAPPED, loader=replace(WHOLE, dataset="Subset"))),
        ("C05", replace(WRAPPED, loader=None)),
        ("C05", replace(ALONE, loader=WHOLE, calls_wrapper=None)),
    ],
    ids=str,
)
def test_what_may_be_meant_otherwise_is_not_named(rule: str, held: Holdings) -> None:
    assert found(holding(held), rule) is None


@pytest.mark.parametrize(
    ("rule", "held"),
    [("C01", BESIDES), ("C03", ALONE), ("C04", replace(WRAPPED, exchanges=False)), ("C05", replace(WRAPPED, loader=WHOLE))],
)
def test_all_ranks_must_hold_it(rule: str, held: Holdings) -> None:
    assert found(holding(lambda rank, second: held if rank == 0 else WRAPPED), rule) is None
    assert found(holding(lambda rank, second: held if rank == 0 else None), rule) is None


def test_ranks_in_a_collective_may_average_by_hand() -> None:
    assert found(holding(ALONE, looks=(*_STEP, "collective")), "C03") is None


def test_few_looks_do_not_show_that_there_are_no_collectives() -> None:
    def unread(second: int) -> Snapshot:
        shot = holding(ALONE)(second)
        return replace(shot, processes=tuple(replace(process, doing=None) for process in shot.processes))

    assert found(lambda second: unread(second) if second < 50 else holding(ALONE)(second), "C03", 88) is None
    assert found(lambda second: unread(second) if second < 50 else holding(ALONE)(second), "C03", 105) is not None


def test_an_ensemble_needs_no_wrapper() -> None:
    def ensemble(second: int) -> Snapshot:
        shot = joined_and_each_prints_its_own(second)
        command = ("python", "train_ensemble.py")
        return replace(shot, processes=tuple(replace(process, command=command) for process in shot.processes))

    assert found(holding(ALONE, ensemble), "C03") is None


def test_a_process_alone_needs_no_wrapper_and_no_sampler() -> None:
    assert not any(play(holding(ALONE, one_process), 60))


def counting(every_s: int, loader: HeldLoader = DIVIDED) -> Held:
    """A script whose own count of epochs goes on."""
    return lambda rank, second: replace(WRAPPED, loader=loader, epoch=4 + second // every_s)


def test_epochs_that_begin_while_the_sampler_stays_at_the_first_are_named() -> None:
    scene = holding(counting(20))
    assert found(scene, "C06", 18) is None, "a run that was resumed may call it with the next epoch"
    second = found(scene, "C06", 28)
    assert second is not None
    assert (second.confidence, second.severity) == ("possible", "warning")
    third = found(scene, "C06", 50)
    assert third is not None
    assert third.confidence == "likely"
    assert [fact.text for fact in third.evidence] == [
        "the DistributedSampler of train_loader shuffles, and is at epoch 0",
        "the script is at epoch 6: 2 epochs later than first seen",
    ]


@pytest.mark.parametrize(
    "loader",
    [replace(DIVIDED, sampler_epoch=5), replace(DIVIDED, shuffles=False), replace(DIVIDED, replicas=1), WHOLE],
    ids=["set", "in order", "of one", "another sampler"],
)
def test_other_samplers_need_no_epoch(loader: HeldLoader) -> None:
    assert found(holding(counting(20, loader)), "C06") is None


@pytest.mark.parametrize(("rows", "confidence"), [(4, "likely"), (5, "possible"), (8, "possible"), (9, None)])
def test_batch_norm_over_few_rows_is_seen_from_outside(rows: int, confidence: str | None) -> None:
    held = replace(WRAPPED, models=replace(DDP, batch_norms=3), loader=replace(DIVIDED, batch_size=rows, sampler_epoch=1))
    finding = found(holding(held), "C10")
    assert getattr(finding, "confidence", None) == confidence
    assert finding is None or finding.evidence[0].text == "3 BatchNorm layers not synced"


@pytest.mark.parametrize(
    "held",
    [
        replace(WRAPPED, loader=replace(DIVIDED, batch_size=2)),
        replace(WRAPPED, models=replace(DDP, batch_norms=3), loader=replace(DIVIDED, batch_size=None)),
        replace(ALONE, models=replace(NET, batch_norms=3), loader=replace(WHOLE, batch_size=2), calls_wrapper=None),
    ],
    ids=["no BatchNorm", "unknown rows", "not replicated"],
)
def test_other_small_batches_are_not(held: Holdings) -> None:
    assert found(holding(held), "C10") is None


def divided(batch: int | None, devices: int | None = 4) -> Holdings:
    """What nn.DataParallel divides."""
    return Holdings(HeldModels(("DataParallel",), "DataParallel", devices=devices), replace(WHOLE, batch_size=batch), 0)


@pytest.mark.parametrize(
    ("batch", "rule", "title"),
    [
        (3, "B01", "DataParallel: batch of 3 feeds 3 of 4 GPUs"),
        (5, "B02", "DataParallel: batch of 5 feeds 3 of 4 GPUs"),
        (13, "B02", "DataParallel: 13 rows split unevenly, 4 to 1"),
        (14, "B02", "DataParallel: 14 rows split unevenly, 4 to 2"),
    ],
)
def test_a_batch_that_divides_badly_is_seen_from_outside(batch: int, rule: str, title: str) -> None:
    first, *_ = play(holding(divided(batch), one_process), 30)[-1]
    assert (first.id, first.confidence, first.title) == (rule, "possible", title)
    assert first.evidence[0].text == f"train_loader makes batches of {batch} rows"


@pytest.mark.parametrize(
    "held",
    [divided(4), divided(15), divided(64), divided(None), divided(3, 1), divided(3, None), replace(divided(3), loader=None)],
)
def test_one_that_divides_well_or_is_not_divided_is_left_alone(held: Holdings) -> None:
    assert not [item for item in play(holding(held, one_process), 30)[-1] if item.id in ("B01", "B02")]


IN_EVALUATION = replace(ALONE, models=HeldModels(("Net",), evaluates=True, differs=("BatchNorm", "dropout")))


def test_a_model_that_is_trained_in_evaluation_mode_is_seen_from_outside() -> None:
    assert found(holding(IN_EVALUATION, one_process), "J07", 24) is None
    finding = found(holding(IN_EVALUATION, one_process), "J07", 40)
    assert finding is not None
    assert (finding.confidence, finding.title) == ("possible", "The model is trained in evaluation mode")
    assert [fact.text for fact in finding.evidence] == [
        "Net is in evaluation mode while its gradients are computed",
        "it has BatchNorm layers, which keep their statistics, and dropout layers, which drop nothing",
    ]


def test_one_that_was_in_training_mode_before_is_likely_to_have_been_left_there() -> None:
    scene = holding(lambda rank, second: ALONE if second < 15 else IN_EVALUATION, one_process)
    assert found(scene, "J07", 50) is None
    finding = found(scene, "J07", 70)
    assert finding is not None
    assert finding.confidence == "likely"


@pytest.mark.parametrize(
    "models",
    [
        HeldModels(("Net",), evaluates=True),
        HeldModels(("Net",), evaluates=False, differs=("BatchNorm",)),
    ],
    ids=["without such layers", "frozen BatchNorm"],
)
def test_other_modes_are_left_alone(models: HeldModels) -> None:
    assert found(holding(replace(ALONE, models=models), one_process), "J07") is None


def test_what_has_stopped_trains_in_no_mode_and_divides_nothing() -> None:
    stopped = outside(always("sleep"), stops=2)
    assert found(holding(divided(3), stopped, looks=("other",)), "B01", 120) is None
    assert found(holding(IN_EVALUATION, stopped, looks=("other",)), "J07", 120) is None
