"""Exceptions that a run survived, recognized by what surrounds them: a warning, the words of the handler, or progress."""

from __future__ import annotations

import pytest

from gputop.doctor.logs.after import is_progress, says_went_on
from gputop.doctor.logs.meaning.explain import explain
from tests.doctor.logs.test_logs import scan, traceback

STEPS = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30))
LATER = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30, 60))


def alarms(text: str) -> list[str]:
    found = []
    for size in (1 << 20, 97):
        found += [item.id for item in explain([scan(text, size=size)]).findings if item.confidence != "possible"]
    return found


@pytest.mark.parametrize(
    "before",
    [
        "W0512 12:00:41.552000 9120 torch/_dynamo/convert_frame.py:1068] [1/0] ",
        "2025-02-03 10:11:12,131 - torch._dynamo - WARNING - ",
        "[rank0]:W0603 08:00:01.100000 33 torch/_inductor/select_algorithm.py:210] ",
    ],
)
@pytest.mark.parametrize("error", ["KeyError: 'x'", "torch.OutOfMemoryError: CUDA out of memory."])
def test_a_traceback_that_is_logged_as_a_warning_ended_nothing(before: str, error: str) -> None:
    logged = "".join(f"{before}{line}\n" for line in ["it does not compile:", *traceback(error).splitlines()])
    assert alarms(f"{logged}nll 4.25 bits/dim 6.1\nnll 4.11 bits/dim 5.9\n") == []
    failed = f"{STEPS}{logged}{STEPS}{traceback('ValueError: no such class', line=99)}"
    (first, *_) = explain([scan(failed)]).findings
    assert "ValueError" in first.title


@pytest.mark.parametrize(
    "words",
    [
        "ERROR no preview was drawn, going on without it",
        "could not send the table, continuing with the next epoch",
        "[WARN] the cache is not writable, proceeding anyway",
    ],
)
def test_words_before_a_traceback_say_that_the_script_goes_on(words: str) -> None:
    assert alarms(f"{STEPS}{words}\n{traceback('RuntimeError: no display')}{LATER}") == []
    assert alarms(f"{STEPS}{words}\n{traceback('RuntimeError: no display')}") != [], "nothing followed"


@pytest.mark.parametrize("line", ["INFO  finished, weights in runs/4", "2025-01-01 10:00:00 INFO: done in 4 h", "done"])
def test_a_run_that_says_it_is_finished_survived(line: str) -> None:
    assert says_went_on(line)
    assert alarms(f"{STEPS}{traceback('RuntimeError: no display')}{LATER}{line}\n") == []


def test_a_log_that_begins_within_a_traceback_and_goes_on_ended_there_with_nothing() -> None:
    rest = "".join(traceback("ValueError: sigma must be positive").splitlines(keepends=True)[1:])
    counted = "".join(f"{at}/500000  dice 0.81  ce 0.43  lr 1.0e-03\n" for at in range(12_000, 12_400, 20))
    assert alarms(f"{rest}(sample 88121 is replaced)\n{counted}") == []
    assert alarms(rest) != []


@pytest.mark.parametrize(
    "line",
    ["12000/500000  dice 0.81  ce 0.43", "[ 400/9000] psnr=31.2", "it   100 | nll 4.41 | 0.211 s/it", "[it 20] elbo -81.2"],
)
def test_progress_has_many_forms(line: str) -> None:
    assert is_progress(line)


@pytest.mark.parametrize(
    "line",
    ["3/10 tests failed", "found it 3 times", "2025/10/01 version 2.1", "1/2: Error: lr 0.1 is too high", "10/3 of them"],
)
def test_what_is_no_progress(line: str) -> None:
    assert not is_progress(line)


@pytest.mark.parametrize("words", ["restarting it", "respawning worker 3", "it is replaced: respawned"])
def test_a_process_of_a_pool_that_is_replaced_ended_nothing(words: str) -> None:
    assert alarms(f"{STEPS}[env 15] worker died (Segmentation fault (core dumped)), {words}\n{LATER}") == []
    assert alarms(f"{STEPS}[env 15] worker died (Segmentation fault (core dumped))\n") == ["signal_crash"] * 2


@pytest.mark.parametrize(
    ("times", "after", "survived"),
    [(3, 2, True), (25, 2, True), (2, 2, False), (3, 1, False), (3, 0, False)],
)
@pytest.mark.parametrize("word", ["WARNING", "ERROR"])
def test_tracebacks_that_are_announced_again_and_again_end_nothing(word: str, times: int, after: int, survived: bool) -> None:
    """They may come faster than progress: a script leaves out one sample after the other."""
    kinds = ("wave.Error: not a WAVE file", "EOFError")
    broken = "".join(f"{word}: file {at} is left out:\n{traceback(kinds[at % 2])}" for at in range(times))
    said = explain([scan(STEPS + broken + "".join(LATER.splitlines(keepends=True)[:after]))]).findings
    assert all(item.confidence == "possible" for item in said) is survived
    failed = f"{STEPS}{broken}{traceback('ValueError: no such class', line=99)}{LATER}"
    (first, *_) = explain([scan(failed)]).findings
    assert "ValueError" in first.title, "this one was not announced"
