"""Tracebacks that a script's own report or logger wrote: somebody caught them, and the lines after them tell the rest."""

from __future__ import annotations

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.meaning.habits import BUFFERED_BYTES
from tests.doctor.logs.test_logs import scan, told

STEPS = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30))
FRAME = '  File "/home/ann/answer.py", line 3, in main\n    return solve(x)\n'
RAISED = f"Traceback (most recent call last):\n{FRAME}{{}}\n"
SERVED = 'INFO:     10.4.0.7:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def alarms(text: str) -> list[Finding]:
    found = []
    for size in (1 << 20, 97):
        found = [item for item in explain([scan(text, size=size)]).findings if item.confidence != "possible"]
    return found


def quoted(before: str, error: str = "NameError: name 'x' is not defined") -> str:
    return "".join(f"{before}{line}\n" for line in RAISED.format(error).splitlines())


@pytest.mark.parametrize("before", ["    | ", "  | ", "    ", "        "])
@pytest.mark.parametrize("error", ["NameError: name 'x' is not defined", "torch.OutOfMemoryError: CUDA out of memory."])
def test_tracebacks_in_a_script_s_own_report_do_not_end_a_continuing_run(before: str, error: str) -> None:
    report = f"task 1: passed\ntask 2: failed\n{quoted(before, error)}task 3: failed\n{quoted(before)}task 4: timed out\n"
    assert alarms(f"{STEPS}{report}pass@1: 0.5\n{STEPS}saved\n") == []


@pytest.mark.parametrize("before", ["    | ", "    "])
def test_the_last_traceback_of_a_log_is_shown_even_if_indented(before: str) -> None:
    found = alarms(f"{STEPS}the worker failed\n{quoted(before)}")[0]
    assert "NameError at answer.py:3 (main)" in found.title


def test_a_word_after_an_indented_traceback_is_not_an_exception() -> None:
    found = explain([scan(f"report\n{quoted('    ')}stored\n")]).findings
    assert "NameError" in found[0].title


def test_an_indented_first_line_alone_quotes_nothing() -> None:
    text = "    " + RAISED.format("KeyError: 'speaker-7'") + STEPS
    assert [item.id for item in alarms(text)] == ["exception"]


MISSING = RAISED.format("ModuleNotFoundError: No module named nunpy")
SAMPLE = f"--- sample ---\n{MISSING}then loss: nan, sorry\n--- end of sample ---\n"


def test_what_a_language_model_writes_between_two_marks_says_nothing() -> None:
    assert alarms(f"{STEPS}{SAMPLE}saving checkpoint\n") == []
    at_step = SAMPLE.replace("sample ---\n", "sample at step 300 ---\n", 1).replace("--- end of sample ---", "---")
    assert alarms(f"{STEPS}{at_step}saving checkpoint\n") == []
    assert [item.id for item in alarms(f"{STEPS}{SAMPLE.replace('--- end of sample ---', '')}")] == ["module_missing"]


def test_code_that_begins_with_such_a_word_is_no_mark() -> None:
    frames = FRAME.replace("return solve(x)", "outputs = self.model(")
    text = f"Traceback (most recent call last):\n{frames}RuntimeError: CUDA out of memory.\n{'=' * 60}\nFailures:\n"
    assert [item.id for item in alarms(f"{STEPS}{text}")] == ["H02"]


GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/home/ann/load.py", line 10, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/home/ann/load.py", line 4, in read
    |     raise ValueError("shard 3 is bad")
    | ValueError: shard 3 is bad
    +------------------------------------
"""


@pytest.mark.parametrize("text", [GROUP, RAISED.format("ValueError: shard 3 is bad")])
def test_buffered_output_after_what_python_itself_printed_proves_nothing(text: str) -> None:
    later = "".join(f"step {step} loss 2.5\n" for step in range(30, 60))
    assert "ValueError" in alarms(f"{STEPS}{text}{later}")[0].title


LEADS = ("ERROR 06-11 10:00:12 [serving_chat.py:226] ", "2026-06-11 10:00:12,001 ERROR api: ", "[ERROR] api: ")


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("error", ["ValueError: 9120 input tokens are too many", "torch.OutOfMemoryError: CUDA out of memory."])
def test_a_server_that_keeps_answering_survived_its_exceptions(lead: str, error: str) -> None:
    assert alarms(SERVED * 9 + (quoted(lead, error) + SERVED * 9) * 3) == []


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize(
    "rest", ["", SERVED, SERVED.replace("200 OK", "500 Internal Server Error") * 9, "INFO:     Shutting down\n"]
)
def test_a_server_that_stops_answering_failed_by_its_exception(lead: str, rest: str) -> None:
    found = alarms(SERVED * 9 + quoted(lead, "ValueError: 9120 input tokens are too many") + rest)
    assert "ValueError at answer.py:3 (main)" in found[0].title


@pytest.mark.parametrize(
    ("second", "survived"),
    [("2026-06-11 10:00:20,001 INFO step {} loss 2.5\n", True), ("2026-06-11 10:00:05,001 INFO step {} loss 2.5\n", False),
     ("step {} loss 2.5\n", False)],
)  # fmt: skip
def test_progress_later_than_a_logged_traceback_is_not_buffered_output(second: str, survived: bool) -> None:
    log = quoted("2026-06-11 10:00:12,001 ERROR trainer: ") + "".join(second.format(step) for step in range(9))
    assert (alarms(log) == []) is survived


def test_progress_of_a_later_time_after_a_traceback_of_python_s_own_proves_nothing() -> None:
    """It may be another process's."""
    later = "".join(f"2026-06-11 10:00:2{step},001 INFO step {step} loss 2.5\n" for step in range(9))
    assert alarms(RAISED.format("KeyError: 'speaker-7'") + later) != []


KILLED = "Out of memory: Killed process 20991 (python3) total-vm:99120044kB"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "[1811220.11] ",
        "Feb 11 03:14:07 gpu-11 kernel: ",
        "2026-02-11T03:14:07+0100 n1 kernel: ",
        "kernel: ",
        "dmesg: [12.5] ",
    ],
)
def test_the_kernel_says_itself_that_it_killed_a_process(before: str) -> None:
    (finding,) = told(f"{before}{KILLED}\n").findings
    assert (finding.id, finding.confidence) == ("H05", "certain")


@pytest.mark.parametrize("before", ["top scored line: kernel: ", "the template number 7 is <*> kernel: "])
def test_a_line_of_the_kernel_within_a_sentence_may_be_what_the_script_is_about(before: str) -> None:
    (finding,) = told(f"epoch 3 loss 0.2\n{before}{KILLED}\nwrote predictions.csv\n").findings
    assert (finding.id, finding.confidence) == ("H05", "possible")


PLAIN = RAISED.format("ValueError: shard 3 is bad")


def progress(bytes_: int) -> str:
    line = "step {0} loss 2.5 lr 3e-4 tokens/s 18233 mem 21.2 GB\n"
    return "".join(line.format(30 + step) for step in range(bytes_ // len(line)))


@pytest.mark.parametrize("text", [GROUP, PLAIN, "Exception in thread Thread-4:\n" + PLAIN])
def test_more_output_than_python_buffers_shows_that_the_script_continues(text: str) -> None:
    assert alarms(f"{STEPS}{text}{progress(BUFFERED_BYTES // 2)}")
    assert alarms(f"{STEPS}{text}{progress(2 * BUFFERED_BYTES)}") == []


def test_a_later_error_ends_the_run_that_survived_an_earlier_one() -> None:
    found = alarms(f"{STEPS}{PLAIN}{progress(2 * BUFFERED_BYTES)}{PLAIN.replace('ValueError', 'KeyError')}")
    assert [finding.title for finding in found] == ["The script failed with KeyError at answer.py:3 (main)"]


SESSION = (
    "============================= test session starts ==============================\n"
    "rootdir: /home/ann\ncollected 9 items\n{}=========== {} in 94.21s (0:01:34) ============\n"
)
PROVOKED = "[rank3] caught: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n" + RAISED.format(
    "KeyError: 1"
)


@pytest.mark.parametrize("after", [STEPS, "Killed by nobody: the tests are all there is\n", ""])
def test_errors_provoked_by_passing_tests_are_not_failures(after: str) -> None:
    assert alarms(SESSION.format(PROVOKED, "9 passed, 1 skipped, 3 warnings") + after) == []


@pytest.mark.parametrize("outcome", ["1 failed, 8 passed", "8 passed, 1 error", "3 errors"])
def test_the_output_of_failing_tests_is_shown(outcome: str) -> None:
    assert alarms(SESSION.format(PROVOKED, outcome))


def test_a_failure_before_or_after_tests_is_shown() -> None:
    passed = SESSION.format(PROVOKED, "9 passed")
    assert [item.title for item in alarms(passed + STEPS + RAISED.format("ValueError: x"))] == [
        "The script failed with ValueError at answer.py:3 (main)"
    ]
    assert alarms(RAISED.format("ValueError: x") + passed)


LOGGED = "[2025-03-03 19:00:1{}][trainer.backends][WARNING] {} cannot be used, trying the next one\n"


def test_a_traceback_that_a_logger_announced_as_it_did_a_later_one_that_was_survived() -> None:
    first, second = RAISED.format("ImportError: a.so: undefined symbol: _ZN3c10"), RAISED.format("ImportError: no b")
    log = LOGGED.format(2, "a") + first + LOGGED.format(3, "b") + second + "falling back to c\n" + STEPS
    assert alarms(log) == []
    assert alarms(log.replace("WARNING] b", "ERROR] b").replace("falling back to c\n", ""))
