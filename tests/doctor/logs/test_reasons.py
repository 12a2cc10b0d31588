"""Why a command failed that an exception reports: a compiler's own words come before, and count only then."""

from __future__ import annotations

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.meaning.explain import explain
from tests.doctor.logs.test_logs import scan

STEPS = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30))
FRAMES = 'Traceback (most recent call last):\n  File "/home/ann/train.py", line 9, in <module>\n    main()\n'
CALLED = "subprocess.CalledProcessError: Command '['/usr/bin/gcc', 'main.c']' returned non-zero exit status 1.\n"
BUILD = (
    "[1/2] nvcc -c ops.cu\nFAILED: ops.cuda.o\n"
    "/usr/local/cuda/include/crt/host_config.h:132:2: error: #error -- unsupported GNU version! gcc versions later than 11 "
    "are not supported!\n"
    "  132 | #error -- unsupported GNU version! gcc versions later than 11 are not supported!\n      |  ^~~~~\n"
    "ninja: build stopped: subcommand failed.\n"
)


def findings(text: str) -> tuple[Finding, ...]:
    return explain([scan(text)]).findings


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (BUILD + FRAMES + "RuntimeError: Error building extension 'fused_adam'\n", "gcc up to version 11"),
        (
            "/tmp/x/main.c:5:10: fatal error: Python.h: No such file or directory\ncompilation terminated.\n"
            f"{FRAMES}torch._inductor.exc.InductorError: CalledProcessError: Command '['gcc']' returned non-zero exit "
            "status 1.\n",
            "Python.h",
        ),
        (f"/usr/bin/ld: cannot find -lcuda\ncollect2: error: ld returned 1 exit status\n{FRAMES}{CALLED}", "libcuda"),
        (
            "nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"
            "error: command '/usr/local/cuda/bin/nvcc' failed with exit code 1\n",
            "compute_120",
        ),
        ("g++: fatal error: Killed signal terminated program cc1plus\nmake: *** [Makefile:9: ops.o] Error 1\n", "memory"),
        (f"{FRAMES}RuntimeError: Error building extension 'ops': [1/2] nvcc\nops.cu:3:10: fatal error: ops.h: No such file or "
         "directory\n", "ops.h"),
    ],
)  # fmt: skip
def test_the_compiler_s_own_words_are_the_cause(log: str, words: str) -> None:
    for text in (log, STEPS + log, "".join(f"[rank1]: {line}\n" for line in log.splitlines())):
        found = findings(text)[0]
        assert words in found.title + found.cause
        assert found.confidence == "likely"


def test_another_exception_after_a_failed_build_is_not_explained_by_it() -> None:
    log = f"{BUILD}{FRAMES}KeyError: 'speaker-7'\n"
    assert "KeyError at train.py:9" in findings(log)[0].title


def test_the_reason_is_that_of_the_failed_command_and_not_of_one_long_before() -> None:
    found = findings(BUILD + "using the slow path\n" * 500 + FRAMES + CALLED)[0]
    assert "CalledProcessError" in found.title


@pytest.mark.parametrize("rest", [STEPS, "using the slow path\n", ""])
def test_a_build_that_nothing_reports_as_failed_says_nothing_certain(rest: str) -> None:
    log = BUILD.replace("ninja: build stopped: subcommand failed.\n", "") + rest
    assert [found for found in findings(log) if found.confidence != "possible"] == []


def test_a_failed_build_of_an_optional_extension_is_not_a_fault() -> None:
    assert [found for found in findings(BUILD + STEPS) if found.confidence != "possible"] == []


def test_an_extension_whose_build_failed_comes_before_the_other_rank_that_misses_it() -> None:
    missing = "ImportError: /home/ann/.cache/ops.so: cannot open shared object file: No such file or directory\n"
    log = FRAMES + "RuntimeError: Error building extension 'ops'\nLoading extension module ops...\n" + FRAMES + missing
    assert findings(log)[0].title == "The extension ops could not be built"


RETRIES = 9 * "srun: Job 41 step creation still disabled, retrying (Requested nodes are busy)\n"
LIMIT = "slurmstepd: error: *** JOB 41 ON c2 CANCELLED AT 2025-10-13T18:00:12 DUE TO TIME LIMIT ***\n"


def test_a_step_that_waited_for_another_until_the_time_was_over() -> None:
    assert findings(f"loading module cuda/12.2\n{RETRIES}{LIMIT}")[0].id == "slurm_step_waits"
    for meanwhile in (STEPS, "epoch 3 is done\nwriting the checkpoint\n"):
        assert findings(f"{RETRIES}{meanwhile}{LIMIT}")[0].id == "slurm_time_limit"


CANCELLED = "slurmstepd: error: *** STEP 41.0 ON c1 CANCELLED AT 2025-06-26T09:02:31 ***\n"


def test_a_step_that_slurm_cancels_for_a_task_is_not_the_task_s_failure() -> None:
    ended = "srun: error: c1: task 0: Exited with exit code 1\n"
    found = findings(f"slurmstepd: error: execve(): train.sh: No such file or directory\n{ended}{CANCELLED}")[0]
    assert "train.sh" in f"{found.title} {found.cause} {found.evidence}"
    assert findings(f"{ended}{CANCELLED}")[0].id == "G04"
    assert findings(f"{STEPS}{CANCELLED}{ended}")[0].id == "slurm_cancelled"
