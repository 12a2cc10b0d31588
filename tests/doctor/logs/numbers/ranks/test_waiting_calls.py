"""Dumps of py-spy in a log of a run that stands still."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found


def dump(pid: int, *frames: str, thread: str = "MainThread") -> list[str]:
    return [
        f"Process {pid}: /home/user/env/bin/python -u train.py",
        "Python v3.11.9 (/home/user/env/bin/python3.11)",
        "",
        f'Thread {pid} (active): "{thread}"',
        *(f"    {frame}" for frame in frames),
        f'Thread {pid + 300} (idle): "Thread-1 (_pin_memory_loop)"',
        "    wait (threading.py:331)",
    ]


C10D = "torch/distributed/distributed_c10d.py"
SAVES = (
    f"all_gather_into_tensor ({C10D}:3330)",
    "wrapper (torch/distributed/c10d_logger.py:79)",
    "state_dict (torch/nn/modules/module.py:1942)",
    "save (tools/train.py:203)",
    "main (tools/train.py:164)",
)
WAITS = (f"barrier ({C10D}:3938)", "wrapper (torch/distributed/c10d_logger.py:79)", "main (tools/train.py:165)")
READS = ("read (tools/data.py:20)", "main (tools/train.py:99)")
STEPS = ["step 10 loss 0.5", "step 20 loss 0.4"]


def test_ranks_in_different_operations(tmp_path: Path) -> None:
    finding = found(tmp_path, [*STEPS, *dump(1, *SAVES), *dump(2, *WAITS), *dump(3, *WAITS)], "C08")
    assert finding is not None
    assert finding.title == "Ranks wait in different collective operations: all_gather_into_tensor and barrier"
    assert [fact.text for fact in finding.evidence] == [
        "py-spy: 1 rank in all_gather_into_tensor, at save (tools/train.py:203)",
        "py-spy: 2 ranks in barrier, at main (tools/train.py:165)",
    ]


def test_one_that_is_elsewhere(tmp_path: Path) -> None:
    finding = found(tmp_path, [*STEPS, *dump(1, *READS), *dump(2, *WAITS), *dump(3, *WAITS)], "G01")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("possible", "2 ranks wait in barrier, and 1 rank elsewhere")
    one_each = found(tmp_path, [*STEPS, *dump(1, *READS), *dump(2, *WAITS)], "G01")
    assert one_each is not None
    assert one_each.title == "1 rank waits in barrier, and 1 rank elsewhere"
    assert found(tmp_path, [*STEPS, *dump(1, *READS), *dump(2, *READS), *dump(3, *WAITS)], "G01") is None, "most are elsewhere"


@pytest.mark.parametrize(
    "frames",
    [
        ("main (torch/distributed/run.py:936)", "<module> (torchrun:8)"),
        ("launch_command (accelerate/commands/launch.py:1184)", "<module> (home/user/bin/accelerate:8)"),
        ("main (deepspeed/launcher/launch.py:355)", "<module> (deepspeed/launcher/launch.py:361)"),
        ("main (deepspeed/launcher/runner.py:636)", "<module> (deepspeed:6)"),
        ("join (torch/multiprocessing/spawn.py:140)", "spawn (torch/multiprocessing/spawn.py:340)", "<module> (train.py:88)"),
    ],
    ids=["torchrun", "accelerate", "deepspeed on a host", "deepspeed", "a script that spawns"],
)
def test_the_launcher_of_the_ranks_is_not_one_that_is_elsewhere(frames: tuple[str, ...], tmp_path: Path) -> None:
    assert (
        found(tmp_path, [*STEPS, *dump(1, *WAITS), *dump(2, *WAITS), *dump(9, "_wait (subprocess.py:1264)", *frames)], "G01")
        is None
    )


def test_a_rank_that_a_script_has_spawned_is_one(tmp_path: Path) -> None:
    spawned = "_wrap (torch/multiprocessing/spawn.py:90)", "run (multiprocessing/process.py:108)"
    finding = found(tmp_path, [*STEPS, *dump(1, *READS, *spawned), *dump(2, *WAITS, *spawned)], "G01")
    assert finding is not None
    assert finding.title == "1 rank waits in barrier, and 1 rank elsewhere"


def test_what_is_no_rank_and_ranks_that_are_in_one_place(tmp_path: Path) -> None:
    launcher = dump(9, "wait (subprocess.py:1264)", "run (torch/distributed/run.py:797)", "main (torch/distributed/run.py:806)")
    worker = dump(
        8, "read (tools/data.py:20)", "_worker_loop (torch/utils/data/_utils/worker.py:302)", "main (tools/train.py:99)"
    )
    other = dump(7, *READS, thread="saver")
    for dumps in (
        [*dump(1, *WAITS), *dump(2, *WAITS), *launcher, *worker, *other],
        dump(1, *SAVES),
        [*dump(1, *READS), *dump(2, *READS)],
    ):
        log = [*STEPS, *dumps]
        assert found(tmp_path, log, "C08") is None
        assert found(tmp_path, log, "G01") is None


def test_a_process_counts_by_its_last_dump(tmp_path: Path) -> None:
    assert found(tmp_path, [*STEPS, *dump(1, *SAVES), *dump(1, *WAITS), *dump(2, *WAITS)], "C08") is None
