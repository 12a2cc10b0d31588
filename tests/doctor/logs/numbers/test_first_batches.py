"""The first batch of each epoch, by the times that lines print of a batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

SHOWN = (0, 1, 2, 12, 24, 47)


def epochs(line: str, first: float, number: int = 4, others: float = 0.125) -> list[str]:
    return [
        line.format(epoch=epoch, batch=batch, took=first if batch == 0 else others + batch / 1000)
        for epoch in range(number)
        for batch in SHOWN
    ]


TOOK = "[{epoch:02d}] clip batch {batch:02d}/48   took {took:6.3f} s   ce 2.6199"
WAIT = "ep {epoch} it {batch} wait {took:7.3f} s  step 0.218 s  mae 5.511"


IN_WORDS = [
    "{at:02d}: эпоха {at}: потери 2.5 | первая партия 12.{at} с, остальные 39 по 0.120 с | проверка: потери 2.5, 14.6 с",
    "epoch {at}: loss 2.5 | first batch 12.{at} s, others 39 at 0.120 s",
]


@pytest.mark.parametrize("line", IN_WORDS)
def test_a_sentence_about_the_first_batch_and_each_other_one(line: str, tmp_path: Path) -> None:
    finding = found(tmp_path, [line.format(at=at) for at in range(1, 6)], "D06")
    assert finding is not None
    assert finding.evidence[1].text == "others take 120 ms"
    assert found(tmp_path, [line.format(at=at).replace("12.", "0.2") for at in range(1, 6)], "D06") is None


@pytest.mark.parametrize("line", [TOOK, WAIT])
def test_a_first_batch_that_takes_longer_than_the_epoch(line: str, tmp_path: Path) -> None:
    finding = found(tmp_path, epochs(line, 22.0), "D06")
    assert finding is not None
    assert finding.title == "The first batch of each epoch comes late: 22s"
    assert finding.evidence[0].text == "the first batches of 4 epochs took 22s"


@pytest.mark.parametrize(
    "lines",
    [
        epochs(TOOK, 22.0, 2),
        epochs(TOOK, 0.5),
        epochs(TOOK, 0.7),
        epochs(TOOK, 22.0, others=20.0),
        [line.replace("batch", "row") for line in epochs(TOOK, 22.0)],
        [line for line in epochs(TOOK, 22.0) if "00/48" in line or "01/48" in line],
    ],
    ids=["two epochs", "a little", "a small share", "all are slow", "no batches", "few others"],
)
def test_other_first_batches_are_in_time(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "D06") is None


def test_it_is_said_instead_of_the_data_it_waits_for(tmp_path: Path) -> None:
    longer: Callable[[str], list[str]] = lambda line: epochs(line, 22.0)  # noqa: E731
    assert found(tmp_path, longer(WAIT), "D06") is not None
    assert found(tmp_path, longer(WAIT), "D01") is None


SENTENCES = [
    "Epoche {epoch}  erster Batch nach {first:5.2f} s | übrige 32 Batches {rest:.2f} s (max 0.062) | Loss 0.7744",
    "epoch {epoch}: starting workers ... first batch after {first:.1f} s\nepoch {epoch}: remaining 26 batches in {rest:.1f} s",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_sentences_about_the_first_batch_and_the_rest(sentence: str, tmp_path: Path) -> None:
    finding = found(tmp_path, [sentence.format(epoch=epoch, first=9.6, rest=1.3) for epoch in range(3)], "D06")
    assert finding is not None
    assert finding.title == "The first batch of each epoch comes late: 9s"
    for first, rest, number in ((9.6, 1.3, 2), (0.1, 1.3, 3), (9.6, 95.0, 3), (9.6, 60.0, 3)):
        lines = [sentence.format(epoch=epoch, first=first, rest=rest) for epoch in range(number)]
        assert found(tmp_path, lines, "D06") is None


BAR = "エポック {epoch}/60 学習: {share:3d}%|███| {done}/47 [00:{at:02d}<00:05, 9.80it/s]"


def bars(first: int, number: int = 4) -> list[str]:
    marks = [(0, 0), (1, first), (24, first + 2), (47, first + 4)]
    return [BAR.format(epoch=epoch, share=done * 100 // 47, done=done, at=at) for epoch in range(number) for done, at in marks]


def test_progress_bars_whose_first_batch_comes_late(tmp_path: Path) -> None:
    finding = found(tmp_path, bars(20), "D06")
    assert finding is not None
    assert finding.title == "The first batch of each epoch comes late: 20s"
    assert found(tmp_path, bars(0), "D06") is None
    assert found(tmp_path, bars(20, 2), "D06") is None
    assert found(tmp_path, [line.replace("/47", "/6") for line in bars(20)], "D06") is None, "an evaluation"


def test_waits_that_are_short_beside_the_steps(tmp_path: Path) -> None:
    def lines(step: float) -> list[str]:
        waits = {0: 8.0, 10: 0.01, 20: 0.01, 30: 0.01, 40: 0.01, 50: 0.01}
        return [
            f"Epoch: [{epoch}][{at:2d}/60] Time {step + wait:.3f} Data {wait:.3f} Loss 0.6"
            for epoch in range(4)
            for at, wait in waits.items()
        ]

    assert found(tmp_path, lines(0.13), "D06") is not None
    assert found(tmp_path, lines(30.0), "D06") is None
