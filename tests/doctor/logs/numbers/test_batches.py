"""Batches by what lines print of them: labels of one class, and the first samples of each epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

LABELS = [
    "ep 0 step {0:3d}/393 loss 2.31 acc 0.5 y[:8]=[{1}] 0.17s",
    "step {0} labels: tensor([{1}], device='cuda:0') loss 0.21",
]


def batches(line: str, classes: list[list[int]]) -> list[str]:
    return [line.format(at, ", ".join(map(str, labels))) for at, labels in enumerate(classes)]


ONE_CLASS = [[at // 3] * 8 for at in range(12)]


@pytest.mark.parametrize("line", LABELS)
def test_batches_of_one_class_each(line: str, tmp_path: Path) -> None:
    finding = found(tmp_path, batches(line, ONE_CLASS), "J04")
    assert finding is not None
    assert finding.title == "Each batch holds the samples of one class alone: the data is not shuffled"
    assert finding.evidence[0].text == "so in 12 of 12 batches that print their labels"


@pytest.mark.parametrize(
    "classes",
    {
        "shuffled": [[(at + place * 3) % 5 for place in range(8)] for at in range(12)],
        "few batches": ONE_CLASS[:7],
        "some batches": ONE_CLASS[:6] + [[0, 1, 2, 3]] * 6,
        "a set of one class": [[0] * 8] * 12,
        "real and generated in turn": [[at % 2] * 8 for at in range(12)],
    }.values(),
)
def test_other_batches_are_shuffled(classes: list[list[int]], tmp_path: Path) -> None:
    for line in LABELS:
        assert found(tmp_path, batches(line, classes), "J04") is None


def test_labels_of_an_evaluation_may_be_in_order(tmp_path: Path) -> None:
    assert found(tmp_path, ["val: " + line for line in batches(LABELS[0], ONE_CLASS)], "J04") is None


ORDERS = [
    "[rank {rank}] epoch {epoch} first ids: {ids}",
    "époque {epoch:2d} rang {rank} premiers ids: {ids}",
    "rank {rank}: epoch {epoch} indices [{ids}]",
]


def orders(line: str, epochs: int, moves: int = 0, ranks: int = 2, ids: int = 6) -> list[str]:
    return [
        line.format(rank=rank, epoch=epoch, ids=" ".join(f"a{100 * rank + 7 * at + moves * epoch}" for at in range(ids)))
        for epoch in range(epochs)
        for rank in range(ranks)
    ]


@pytest.mark.parametrize("line", ORDERS)
def test_epochs_that_begin_with_the_same_samples(line: str, tmp_path: Path) -> None:
    finding = found(tmp_path, orders(line, 4), "C06")
    assert finding is not None
    assert finding.title == "Each epoch has the same order: its first samples are the same on each rank"
    assert finding.evidence[0].text == "so in 4 epochs, on 2 ranks"
    assert found(tmp_path, orders(line, 2), "C06") is None
    assert found(tmp_path, orders(line, 4, moves=1), "C06") is None
    assert found(tmp_path, orders(line, 4, ranks=1), "C06") is None
    assert found(tmp_path, orders(line, 4, ids=3), "C06") is None


@pytest.mark.parametrize(
    "rest",
    [
        "ids 0 4 8 12 16 20",
        "ids 7 3 3 7 7 3",
        "samples 12500 batches 196 lr 0.1 bs 64",
        "files: shard-00 shard-04 shard-08 shard-12 shard-16",
        "ids 4 of 12",
    ],
)
def test_other_numbers_that_stay(rest: str, tmp_path: Path) -> None:
    lines = [f"[rank {rank}] epoch {epoch} {rest}" for epoch in range(5) for rank in range(2)]
    assert found(tmp_path, lines, "C06") is None


def test_an_order_that_changes_late(tmp_path: Path) -> None:
    lines = orders(ORDERS[0], 4)
    moved = [line.replace(" a", " b").replace("epoch 3", "epoch 9") for line in lines[-2:]]
    assert found(tmp_path, [*lines, *moved], "C06") is None


def test_what_is_evaluated_may_keep_its_order(tmp_path: Path) -> None:
    assert found(tmp_path, orders("[rank {rank}] val: epoch {epoch} first ids: {ids}", 4), "C06") is None


def test_samples_in_other_words(tmp_path: Path) -> None:
    line = "[r{rank}] Epoche {epoch}: erste Indizes [{ids}] ..."
    lines = [text.replace("a", "") for text in orders("[r{rank}] Epoche {epoch}: erste Indizes {ids} ...", 4)]
    assert found(tmp_path, [_shuffled(text) for text in lines], "C06") is not None, line


def _shuffled(text: str) -> str:
    """Return a line whose samples are in no order, and in brackets."""
    before, _, ids = text.partition("Indizes ")
    first, *others = ids.removesuffix(" ...").split()
    return f"{before}Indizes [{', '.join([*others, first])}] ..."


@pytest.mark.parametrize(
    "text", ["labels in batch {{{0}}}", "classes: [{0}]", "labels {{'{0}': 16}}", "class ids in the batch = {{{0}: 16}}"]
)
def test_the_classes_of_a_batch_each_once(text: str, tmp_path: Path) -> None:
    sorted_ = [f"ep 1 batch {at} loss 0.{at % 7} {text.format(at // 4)}" for at in range(24)]
    finding = found(tmp_path, sorted_, "J04")
    assert finding is not None
    assert finding.confidence == "likely"
    assert finding.title == "Each batch holds the samples of one class alone: the data is not shuffled"
    mixed = [line.replace(f"{at // 4}", f"{at // 4}, 7, 9", 1) if at % 2 else line for at, line in enumerate(sorted_)]
    assert found(tmp_path, [line.replace("}", ", 5: 2}").replace("]", ", 5]") for line in mixed], "J04") is None


def test_the_classes_of_a_batch_in_the_last_column(tmp_path: Path) -> None:
    names = ("biology", "chemistry", "geography", "history", "latin", "music")
    rows = [f"    0  {at:3d}  0.{at % 9}10 0.062  {{'{names[at // 5]}': 16}}" for at in range(30)]
    assert found(tmp_path, ["epoch step   loss   acc  labels in batch", *rows], "J04") is not None
    assert found(tmp_path, ["epoch step   loss   acc  predicted", *rows], "J04") is None
