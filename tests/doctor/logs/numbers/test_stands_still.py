"""Runs that say, to the end of their logs, that nothing moves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gputop.doctor.logs.numbers.stands_still import NEAR
from tests.doctor.logs.numbers.logs import clock, found

STEPS = [f"{clock(20 * at)} [rank{rank}] step {100 * at} loss {9 / at:.3f}" for at in range(1, 10) for rank in (0, 1)]


def said(text: str, number: int = 6, every: float = 300.0) -> list[str]:
    return [
        f"{clock(400 + every * at)} [rank{rank}] {text.format(int(every * at), int(every * at / 60))}"
        for at in range(1, number + 1)
        for rank in (0, 1)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "heartbeat: process alive, no progress for {} s, gpu util 100%",
        "still in backward of batch 841/841 ({1} min)",
        "heartbeat: trainer alive, last finished step 216, {1} min ago",
        "watchdog: main thread is stuck in all_reduce for {} s",
        "waiting for the other ranks",
        "monitor: train.log unchanged for {1} min; GPU util 100/100 %",
        "util 100 %, power 91 W, newest line of train.log is {} s old",
        "alive: rank 0 step 1843 util 100% power 101 W",
        "[monitor] last step r0=1651 r1=1651 | idle {}s | util 100 100",
    ],
)
def test_a_run_that_says_that_nothing_moves(text: str, tmp_path: Path) -> None:
    finding = found(tmp_path, [*STEPS, *said(text)], "G01")
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("error", "likely")
    assert finding.title.startswith("The training hangs: nothing has moved for ")


def test_ranks_that_wait_for_others_to_join(tmp_path: Path) -> None:
    lines = said("monitor: train.py pid 30711 still in init_process_group, joined 1 of 2")
    finding = found(tmp_path, lines, "G03")
    assert finding is not None
    assert finding.title.startswith("Ranks have waited for the others to join for ")


@pytest.mark.parametrize(
    "lines",
    [
        [*STEPS, *said("no progress for {} s", 1)],
        [*STEPS, *said("waiting for the other ranks", 6, 10.0)],
        [*STEPS, *said("no progress for {} s"), "00:59:00 [rank0] step 1000 loss 0.5", "00:59:20 [rank0] step 1100 loss 0.5"],
        [*STEPS, *said("heartbeat: alive, gpu util 100%")],
        [*STEPS, *said("epoch done")],
        [*STEPS, *said("monitor: no progress since 0 s")],
        [*STEPS, *said("no progress for {} s"), *(f"[rank0] free memory {at} MB" for at in range(NEAR + 1))],
        [*STEPS, *said("rendezvous: joined 2 of 2")],
    ],
    ids=[
        *("said once", "a moment", "went on", "only alive", "something else"),
        *("nothing yet", "other lines follow", "all have joined"),
    ],
)
def test_others_go_on_or_say_nothing(lines: Sequence[str], tmp_path: Path) -> None:
    assert (found(tmp_path, lines, "G01"), found(tmp_path, lines, "G03")) == (None, None)


def test_ranks_with_unequal_batches_explain_why(tmp_path: Path) -> None:
    stated = [f"rank{rank}: 141 tar files, {40360 - rank} question/passage pairs, {841 - rank} batches" for rank in (0, 1)]
    assert found(tmp_path, [*stated, *said("still waiting ({1} min)")], "C07") is not None
    assert found(tmp_path, [*stated, *said("still waiting ({1} min)")], "G01") is None


def test_heartbeats_of_a_run_that_goes_on(tmp_path: Path) -> None:
    beats = [f"{clock(400 + 300 * at)} heartbeat: rank 0 step {900 + at} util 100%" for at in range(8)]
    assert found(tmp_path, [*STEPS, *beats], "G01") is None
    assert found(tmp_path, [*STEPS, *beats, *beats[-1:]], "G01") is None, "twice the same"
