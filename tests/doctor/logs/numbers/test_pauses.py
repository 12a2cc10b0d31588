"""Where a run's time goes between its lines, by the times at which they were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import clock, found

Pause = Sequence[tuple[float, str]]
"""Seconds that pass, and the line that follows them."""


def training(pause: Pause, *, every: int = 100, epochs: int = 0, ranks: int = 1, steps: int = 600) -> Iterator[str]:
    """Yield the lines of a run that logs each tenth step, of 0.2 s, and pauses after this many steps, or after an epoch."""
    at = 0.0
    for step in range(10, steps + 1, 10):
        at += 2.0
        shown = f"epoch {(step - 1) // every + 1} step {(step - 1) % every + 1}/{every}" if epochs else f"step {step}"
        for rank in range(ranks):
            who = f"[rank {rank}] " if ranks > 1 else ""
            yield f"{clock(at)} {who}{shown} loss {9 / step:.4f}"
        if step % every == 0 and step < steps:
            for seconds, text in pause:
                at += seconds
                if text:
                    yield f"{clock(at)} {text}"


EVALUATION = ((0.0, "evaluating ..."), (30.0, "valid accuracy 0.71 (took 30 s)"))
REPORTED = ((15.0, "50 % of 4820 frames"), (15.0, "100 % of 4820 frames"), (0.0, "valid dice 0.71"))
CHECKPOINT = ((0.0, "Saving current state to /mnt/run/checkpoint-100"), (9.0, "Model weights saved in /mnt/run"))
FIRST = ((0.0, "epoch 2 start"), (12.0, "epoch 2 first batch arrived (12 workers started)"))


@pytest.mark.parametrize(
    ("pause", "id_", "title"),
    [
        (EVALUATION, "E07", "Evaluation takes longer than training: 56% of the time"),
        (REPORTED, "E07", "Evaluation takes longer than training: 56% of the time"),
        (CHECKPOINT, "E07", "The loop waits for checkpoints: 28% of the time"),
        (FIRST, "D06", "The first batch of each epoch comes late: 34% of the time"),
        (((25.0, ""),), "E07", "The loop stalls at regular intervals: 51% of the time"),
    ],
    ids=["evaluation", "with its progress", "checkpoint", "first batch", "something"],
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_pause_belongs_to_what_stands_there(pause: Pause, id_: str, title: str, ranks: int, tmp_path: Path) -> None:
    finding = found(tmp_path, training(pause, ranks=ranks), id_)
    assert finding is not None
    assert finding.title == title
    assert "5 pauses of" in finding.evidence[0].text


def test_at_the_end_of_an_epoch_nothing_says_what_it_was(tmp_path: Path) -> None:
    finding = found(tmp_path, training(((25.0, ""),), epochs=1), "E07")
    assert finding is not None
    assert finding.title == "Between epochs, the loop stands still: 51% of the time"
    after_evaluation = ((1.0, "valid accuracy 0.71"), (25.0, ""))
    finding = found(tmp_path, training(after_evaluation, epochs=1), "D06")
    assert finding is not None
    assert finding.confidence == "likely"


@pytest.mark.parametrize(
    "lines",
    [
        training(()),
        training(((2.0, "valid accuracy 0.71"),)),
        training(((18.0, "valid accuracy 0.71"),)),
        training(((1.0, "Saved checkpoint run/checkpoint-100.pt"),)),
        training(EVALUATION, every=200),
        (line.partition(" ")[2] for line in training(CHECKPOINT)),
        training(((25.0, ""),), every=260),
        (f"{clock(60 * epoch)} epoch {epoch} loss {9 / epoch:.3f}" for epoch in range(1, 40)),
    ],
    ids=["none", "short", "less than the training", "a quick checkpoint", "two pauses", "no times", "few", "epochs"],
)
def test_other_pauses_are_usual(lines: Iterator[str], tmp_path: Path) -> None:
    texts = list(lines)
    assert (found(tmp_path, texts, "E07"), found(tmp_path, texts, "D06")) == (None, None)


def test_the_rest_of_an_epoch_that_is_not_printed_is_no_pause(tmp_path: Path) -> None:
    """As MMEngine prints 50, 100, 150 and 200 of 217 batches."""
    lines, at = [], 0.0
    for epoch in range(1, 8):
        for batch in (50, 100, 150, 200):
            at += 22.0
            lines.append(
                f"06/08 {clock(at)} - mmengine - INFO - Epoch(train) [{epoch}][{batch:3d}/217]  lr: 1.0e-04  loss: 1.5"
            )
        at += 8.0
    assert found(tmp_path, lines, "E07") is None


def test_pauses_at_any_step_are_no_pattern(tmp_path: Path) -> None:
    at, lines = 0.0, []
    for step in range(1, 200):
        at += 2.0 + 30.0 * (step in (20, 33, 71, 77, 120, 181))
        lines.append(f"{clock(at)} step {step} loss {9 / step:.4f}")
    assert found(tmp_path, lines, "E07") is None
    regular = [f"{clock(2.0 * step + 30.0 * (step // 40))} step {step} loss {9 / step:.4f}" for step in range(1, 200)]
    finding = found(tmp_path, regular, "E07")
    assert finding is not None
    assert finding.confidence == "possible"
