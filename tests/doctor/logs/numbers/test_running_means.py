"""Waits for data by the means in brackets, which cover all batches of an epoch so far."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.doctor.logs.numbers.parts import means_in
from tests.doctor.logs.numbers.logs import found

COMPUTES_S = 0.3
IMAGENET = (
    "Epoch: [{epoch}][{at:4d}/4004]\tTime {time:.3f} ({times:.3f})\tData {data:.3f} ({datas:.3f})\tLoss {loss:.4f} (6.9012)"
)
TIMM = (
    "Train: {epoch} [{at:4d}/4004 (  3%)]  Loss: {loss:.3f} (6.87)  Time: {time:.3f}s,  812.10/s  ({times:.3f}s,  430.21/s)  "
    "LR: 5.000e-01  Data: {data:.3f} ({datas:.3f})"
)
SWIN = (
    "INFO Train: [{epoch}/90][{at}/4004] eta 1:02:03 time {time:.4f} ({times:.4f}) "
    "data time {data:.4f} ({datas:.4f}) loss {loss:.4f} (6.9)"
)
FORMS = IMAGENET, TIMM, SWIN


def printed(waited: Callable[[int], float], at: range, form: str = IMAGENET, epochs: int = 1) -> list[str]:
    """Return lines with means since the first batch of their epoch; ``waited``: the seconds by the batch."""
    lines = []
    for epoch in range(epochs):
        total = 0.0
        for batch in range(at[-1] + 1):
            data = waited(batch)
            total += data
            if batch in at:
                mean = total / (batch + 1)
                times = {"time": data + COMPUTES_S, "times": mean + COMPUTES_S, "data": data, "datas": mean}
                lines.append(form.format(epoch=epoch, at=batch, loss=7 - batch / 1000, **times))
    return lines


def starts(batch: int) -> float:
    return 130.0 if batch == 0 else 0.001


def starts_longer(batch: int) -> float:
    return 22.0 if batch < 8 else 0.001


def in_bursts(batch: int) -> float:
    return 8.0 if batch % 16 == 0 else 0.001


FAULTS: dict[str, tuple[Callable[[int], float], range]] = {
    "two reports": (in_bursts, range(0, 401, 200)),
    "only the first and one more": (in_bursts, range(0, 201, 200)),
    "the log begins within an epoch": (in_bursts, range(1000, 1101, 50)),
    "each batch": (lambda batch: 0.9, range(300, 309)),
}
HEALTHY: dict[str, tuple[Callable[[int], float], range]] = {
    "decays": (starts, range(0, 41, 10)),
    "decays for long": (starts, range(0, 401, 100)),
    "decays within the log": (starts, range(10, 81, 10)),
    "workers start one after another": (starts_longer, range(10, 101, 10)),
    "too few batches": (in_bursts, range(0, 31, 10)),
    "only one report": (in_bursts, range(200, 201)),
    "printed with the pause of the workers": (lambda batch: 0.0 if batch % 10 else 0.7, range(10, 160, 10)),
    "no wait": (lambda batch: 0.01, range(0, 401, 50)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FAULTS)
def test_means_show_a_wait_that_few_batches_show(name: str, form: str, tmp_path: Path) -> None:
    waited, at = FAULTS[name]
    finding = found(tmp_path, printed(waited, at, form), "D01")
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "likely")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_mean_that_decays_is_no_lasting_wait(name: str, epochs: int, form: str, tmp_path: Path) -> None:
    waited, at = HEALTHY[name]
    assert found(tmp_path, printed(waited, at, form, epochs if len(at) > 4 else 1), "D01") is None


def test_a_start_before_a_lasting_wait_does_not_count(tmp_path: Path) -> None:
    def waited(batch: int) -> float:
        return 130.0 if batch == 0 else 0.4

    finding = found(tmp_path, printed(waited, range(0, 401, 100)), "D01")
    assert finding is not None
    assert "57%" in finding.title


def test_the_batches_of_an_evaluation_do_not_count(tmp_path: Path) -> None:
    lines = [f"Test: {text.partition(' ')[2]}" for text in printed(in_bursts, range(0, 401, 50))]
    assert found(tmp_path, lines, "D01") is None


@pytest.mark.parametrize(
    ("line", "means"),
    [
        ("Time 0.412 (0.512)  Data 0.012 (0.251)  Loss 6.1 (6.2)", (0.251, 0.512)),
        ("Batch_Time: 412ms (512ms) Data_Time: 12ms (251ms)", (251.0, 512.0)),
        ("Time 0.412 (0.512)  Data 12 ms (251 ms)", None),
        ("Time 0.412 (41.2%)  Data 0.012 (8.1%)", None),
        ("Data time 0.412 (0.512)", None),
        ("Time 0.412 (0.251)  Data 0.012 (0.512)", None),
        ("Time 0.412 (0.512) Data 0.112 (0.251), prefetched", None),
        ("data: 3 (2 files) time: 2 (3)", None),
    ],
)
def test_the_means_of_a_line(line: str, means: tuple[float, float] | None) -> None:
    assert means_in(line) == means


def mmengine(*times: tuple[float, float]) -> list[str]:
    """Return the first reports of a run, each with the means of the time of a step and of its data so far."""
    return [
        f"2024/02/03 04:05:{at:02d} - mmengine - INFO - Epoch(train)   [1][{at:4d}/880]  lr: 1.2000e-07  eta: 9:04:11  "
        f"time: {time:.4f}  data_time: {data:.4f}  memory: 9120  loss: {9 - at / 10:.4f}  loss_cls: 3.1010"
        for at, (time, data) in enumerate(times, 1)
    ]


@pytest.mark.parametrize(
    ("times", "confidence"),
    [
        (((24.0, 22.0), (14.0, 12.5), (10.9, 9.5)), "possible"),
        (((24.0, 22.0), (12.2, 11.01), (8.4, 7.35)), None),  # only the first step waits
        (((24.0, 22.0), (14.0, 12.5)), None),
        (((2.0, 1.0), (1.6, 0.9), (1.5, 0.9)), None),
    ],
)
def test_the_first_reports_of_mmengine(times: tuple[tuple[float, float], ...], confidence: str | None, tmp_path: Path) -> None:
    finding = found(tmp_path, mmengine(*times), "D01")
    assert (finding.confidence if finding is not None else None) == confidence
