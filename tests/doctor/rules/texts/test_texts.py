"""Error texts in the output of jobs that failed, and the same texts where the job went on: a script may show or catch them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.scan import LogScan
from gputop.snapshot import LogMatch, Run, Snapshot
from tests.doctor.logs.samples import MATCHING
from tests.doctor.scenes import outside
from tests.doctor.scenes.base import gpus, play
from tests.doctor.tracked import ddp
from tests.samples import run, snapshot

CAUSES = {
    "cuda_deser_unavailable": "A12",
    "not_compiled_cuda": "A12",
    "cuda_unknown_env": "A04",
    "two_devices": "A13",
    "local_rank_dash": "A17",
    "dp_not_on_dev0": "B09",
    "dp_replica_error": "B10",
    "param_shape": "C08",
    "unused_params": "C09",
    "ready_twice": "C09",
    "module_prefix": "C13",
    "ddp_devids_cpu": "C15",
    "ddp_not_needed": "C15",
    "oom": "H02",
    "ecc": "I04",
    "nvml_mismatch": "I10",
}
LINES = {name: line for name, line, _ in reversed(MATCHING)}
SECONDS = 8


def said(pattern: str, launch: str | None, run_state: str | None, launch_id: str = "run-1") -> list[Finding]:
    """What the doctor says in the end of a job that said a text; without ``run_state`` the job has no journal."""
    told = LogMatch(pattern, CAUSES.get(pattern), LINES[pattern], launch_id, "run-1", None, "out.log", 3, job_state=launch)

    def scene(second: int) -> Snapshot:
        runs: tuple[Run, ...] = ()
        if run_state is not None:
            base = run(1)
            ranks = tuple(replace(rank, state=run_state, step=second) for rank in base.ranks)
            runs = (replace(base, state=run_state, job_id="run-1", ranks=ranks),)
        return replace(snapshot(second, devices=gpus([]), processes=(), runs=runs, points=()), logs=(told,))

    return list(play(scene, SECONDS)[-1])


@pytest.mark.parametrize("pattern", CAUSES)
@pytest.mark.parametrize("run_state", [None, "failed"])
def test_a_text_of_a_job_that_failed_names_the_cause(pattern: str, run_state: str | None) -> None:
    found = said(pattern, "failed", run_state)
    assert [item.id for item in found if item.confidence != "possible"][:1] == [CAUSES[pattern]]
    assert "went on" not in " ".join(fact.text for fact in found[0].evidence)


@pytest.mark.parametrize("run_state", [None, "failed"])
def test_a_compiler_error_is_shown_for_the_job_that_it_ended(run_state: str | None) -> None:
    found = said("toolchain", "failed", run_state)[0]
    assert (found.id, found.confidence) == ("toolchain", "likely")
    assert "gcc up to version 11" in found.title


def test_a_text_of_one_part_of_a_launch_over_hosts_belongs_to_the_run_made_from_its_log() -> None:
    assert [item.id for item in said("oom", "failed", "failed", "launch-1")][:1] == ["H02"]


@pytest.mark.parametrize("pattern", CAUSES)
@pytest.mark.parametrize(
    ("launch", "run_state"),
    [
        ("finished", None),
        ("running", None),
        ("running", "starting"),
        ("running", "running"),
        ("finished", "finished"),
        (None, "finished"),
    ],
)
def test_a_text_after_which_the_job_continued_is_possible_at_most(
    pattern: str, launch: str | None, run_state: str | None
) -> None:
    found = said(pattern, launch, run_state)
    assert [(item.id, item.title) for item in found if item.confidence != "possible"] == []
    for finding in found:
        assert finding.severity != "error"
        assert any("after this text" in fact.text for fact in finding.evidence)


def test_a_full_disk_is_told_while_the_run_that_met_it_goes_on() -> None:
    line = "WARNING could not write checkpoint: [Errno 28] No space left on device"
    told = LogMatch("disk_full", None, line, "run-1", None, 0, "out.log", 3, job_state="running")

    def heard(*matches: LogMatch) -> list[Finding]:
        return [item for item in play(lambda second: ddp(second, logs=matches), SECONDS)[-1] if item.id == told.pattern]

    (finding,) = heard(told)
    assert (finding.severity, finding.confidence, finding.title) == ("warning", "possible", "The disk is full")
    assert line in finding.evidence[0].text
    untracked = replace(told, run_id="pid-4000-1")
    shown = play(lambda second: replace(outside.computes(second), logs=(untracked,)), SECONDS)[-1]
    assert [item.confidence for item in shown if item.id == told.pattern] == ["possible"]
    assert heard(replace(told, pattern="file_system", line="OSError: [Errno 30] Read-only file system: 'a'")) == []


@pytest.mark.parametrize(
    ("target", "prediction", "confidence"),
    [("256", "256, 1", "likely"), ("256, 1", "256", "likely"), ("1", "1, 1", "possible"), ("1", "256, 1", "possible")],
)
def test_a_loss_that_compares_each_prediction_with_every_target_is_wrong(target: str, prediction: str, confidence: str) -> None:
    line = (
        f"train.py:9: UserWarning: Using a target size (torch.Size([{target}])) that is different to the input size "
        f"(torch.Size([{prediction}])). This will likely lead to incorrect results due to broadcasting."
    )
    told = LogMatch("target_size", None, line, "run-1", None, 0, "out.log", 3, job_state="running")
    (finding,) = [item for item in play(lambda second: ddp(second, logs=(told,)), SECONDS)[-1] if item.id == told.pattern]
    assert finding.confidence == confidence
    assert f"[{prediction}] against targets of shape [{target}]" in finding.title


def test_a_script_that_failed_after_its_run_was_done_is_explained() -> None:
    assert [item.id for item in said("cuda_deser_unavailable", "failed", "finished")] == ["A12"]


# ---- a log alone


def judged(text: str) -> list[tuple[str, str]]:
    scan = LogScan("train.log")
    scan.feed(text.encode())
    scan.end()
    return [(finding.id, finding.confidence) for finding in explain([scan]).findings]


SHOWN = "   torch.load(path)   " + LINES["cuda_deser_unavailable"] + "\n"
OOM = LINES["oom"] + "\n"
RAISED = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    load()\n'


@pytest.mark.parametrize(
    "text",
    [
        SHOWN + "   with map_location: loaded\n\n2. Names\n   ok\n",
        "caught " + LINES["cuda_deser_unavailable"] + "\nusing the CPU\nloaded\nready\n",
        OOM + "".join(f"epoch 0 step {step} loss 0.5\n" for step in range(5)),
        RAISED + OOM + "retrying\n" + "".join(f"epoch 0 step {step} loss 0.5\n" for step in range(5)),
    ],
)
def test_a_text_that_a_script_shows_is_possible_at_most(text: str) -> None:
    assert {confidence for _, confidence in judged(text)} == {"possible"}


def test_progress_behind_a_whole_traceback_may_have_waited_in_a_buffer() -> None:
    text = RAISED + OOM + "".join(f"epoch 0 step {step} loss 0.5\n" for step in range(5))
    assert {confidence for _, confidence in judged(text)} == {"likely"}


def test_a_script_that_catches_its_error_and_ends_with_a_code_has_failed_of_it() -> None:
    scan = LogScan("train.log")
    scan.feed(f"giving up: {OOM}saved the log\nthe end\nby\nbye\n".encode())
    scan.end()
    assert [item.confidence for item in explain([scan]).findings] == ["possible"]
    assert [item.confidence for item in explain([scan], failed=True).findings] == ["certain"]


@pytest.mark.parametrize(
    "text",
    [
        SHOWN,
        SHOWN + "that was it\n",
        SHOWN + RAISED + "ValueError: no weights\n",
        LINES["cuda_deser_unavailable"] + "\nsaved the log\nthe end\nby\nbye\n",
        "ERROR:root:" + LINES["cuda_deser_unavailable"] + "\nsaved the log\nthe end\nby\nbye\n",
        OOM + "".join(f"frame #{number}: step 3 + 0x{number}f (libc10.so)\n" for number in range(30)),
        OOM + "".join(f"wandb: loss {number}\n" for number in range(30)),
    ],
)
def test_a_text_that_may_have_ended_its_script_stays_what_it_is(text: str) -> None:
    assert judged(text)[0][1] == "certain"
