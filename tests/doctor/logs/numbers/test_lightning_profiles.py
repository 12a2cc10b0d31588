"""The report of Lightning's SimpleProfiler in a log."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.logs.numbers.logs import found


def report(loads: float, saves: float = 10.0) -> list[str]:
    rows = [
        ("run_training_epoch", 555.6, 5, 2778.0),
        ("[_TrainingEpochLoop].train_dataloader_next", loads / 2065, 2065, loads),
        ("run_training_batch", 0.24204, 2060, 498.6),
        ("[Callback]ModelCheckpoint{'monitor': 'val', 'mode': 'min'}.on_validation_end", saves / 6, 6, saves),
    ]
    heading = "|  Action           \t|  Mean duration (s)\t|  Num calls      \t|  Total time (s) \t|  Percentage %   \t|"
    return [
        "FIT Profiler Report",
        heading,
        "|  Total            \t|  -                \t|  53210          \t|  2921.4         \t|  100 %          \t|",
        *(
            f"|  {name:100}\t|  {mean:<17.5g}\t|  {calls:<15}\t|  {total:<15.5g}\t|  {total / 29.2:<15.4g}\t|"
            for name, mean, calls, total in rows
        ),
    ]


def test_a_loader_that_takes_most_of_the_epochs(tmp_path: Path) -> None:
    finding = found(tmp_path, report(2257.0), "D01")
    assert finding is not None
    assert (finding.confidence, finding.title) == (
        "likely",
        "The run waits for data: 81% of its epochs, by Lightning's profiler",
    )
    unsure = found(tmp_path, report(1000.0), "D01")
    assert unsure is not None
    assert unsure.confidence == "possible"


def test_checkpoints_and_neither(tmp_path: Path) -> None:
    saves = found(tmp_path, report(100.0, 900.0), "E07")
    assert saves is not None
    assert saves.title.startswith("The loop waits for checkpoints: 32%")
    for id_ in ("D01", "E07"):
        assert found(tmp_path, report(100.0), id_) is None
        assert found(tmp_path, report(2257.0)[4:], id_) is None, "without the epochs"
