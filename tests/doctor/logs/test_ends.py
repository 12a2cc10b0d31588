"""How a log ends: errors of two lines, exit codes, signals, tracebacks that are cut off or a notebook's."""

from __future__ import annotations

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.blocks import OPEN_MAX
from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.scan import LogScan
from tests.doctor.logs.test_logs import scan

STEPS = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30))
FRAMES = (
    '  File "/workspace/train.py", line 60, in main\n'
    "    loss = step(batch)\n"
    '  File "/usr/lib/python3.12/site-packages/shards/read.py", line 12, in step\n'
    "    raise ShardFault(name)\n"
)


def first(text: str) -> Finding:
    return explain([scan(text)]).findings[0]


@pytest.mark.parametrize(
    ("lines", "id_", "words"),
    [
        (
            "terminate called after throwing an instance of 'std::runtime_error'\n  what():  cannot open 17.mp4\n",
            "cpp_terminate",
            "cannot open 17.mp4",
        ),
        (
            "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: an illegal memory access was "
            "encountered\n",
            "illegal",
            "illegal address",
        ),
        ("terminate called after throwing an instance of 'int'\n", "cpp_terminate", "ended the process: int"),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n", "H05", "memory"),
        ("thread 'main' panicked at src/lib.rs:88:14:\nthe shard is empty\n", "panic", "the shard is empty"),
    ],
)
@pytest.mark.parametrize("lead", ["", "[rank3]: ", "2026-05-01T10:00:00.123456789Z stderr F "])
def test_an_error_of_two_lines_is_shown_with_its_reason(lines: str, id_: str, words: str, lead: str) -> None:
    found = first(STEPS + "".join(f"{lead}{line}\n" for line in lines.splitlines()) + "Aborted (core dumped)\n")
    assert found.id == id_
    assert words in found.title + found.cause


def test_errors_of_two_lines_that_ranks_write_between_each_other_are_kept_apart() -> None:
    begin, reason = "terminate called after throwing an instance of 'A'", "  what():  reason of"
    text = f"0: {begin}\n1: {begin}\n1: {reason} 1\n0: {reason} 0\n"
    seen = scan(text).observations
    assert [(item.rank, item.groups["why"], item.line_number) for item in seen] == [
        (0, "reason of 0", 1),
        (1, "reason of 1", 2),
    ]


def test_a_first_line_is_shown_alone_if_another_first_line_follows() -> None:
    seen = scan("terminate called after throwing an instance of 'A'\nterminate called after throwing an instance of 'B'\n")
    assert [item.groups["type"] for item in seen.observations] == ["A", "B"]


@pytest.mark.parametrize(
    ("line", "id_", "words"),
    [
        ("trainer-1 exited with code 137", "H05", "SIGKILL"),
        ("trainer-1 exited with code 139", "signal_crash", "SIGSEGV"),
        ("      Exit Code:    143", "last_words", "SIGTERM"),
        ("Exited with exit code 134.", "last_words", "SIGABRT"),
        ("Process finished with exit code -1073741819 (0xC0000005)", "last_words", "exit code"),
        ("Process finished with exit code 3", "last_words", "nothing before it shows why"),
        ("run.sh: line 17: 12345 Aborted                 (core dumped) python train.py", "last_words", "Aborted"),
    ],
)
def test_an_exit_code_is_shown_as_the_signal_that_it_stands_for(line: str, id_: str, words: str) -> None:
    found = first(f"{STEPS}{line}\n")
    assert (found.id, found.confidence) == (id_, "likely")
    assert words in found.title + found.cause


def test_a_signal_from_outside_follows_an_exception_and_a_time_out() -> None:
    stop = "W0501 10:00:00.1 140 api.py:704] Received Signals.SIGTERM death signal, shutting down workers\n"
    raised = f"Traceback (most recent call last):\n{FRAMES}shards.read.ShardFault: shard 17 is empty\n"
    assert (first(stop).id, first(stop).confidence) == ("stopped", "likely")
    assert first(f"{raised}{stop}").id == "exception"
    watchdog = (
        "[rank3]:[E501 10:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before "
        "timing out.\n"
    )
    assert first(f"{watchdog}{stop}").id == "G01"


EVICTED = (
    "Status:  Failed\nReason:  Evicted\nMessage:  The node was low on resource: ephemeral-storage. Threshold quantity: 9.\n"
)
LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-02-11T04:00:00 DUE TO TIME LIMIT ***\n"


@pytest.mark.parametrize(("end", "id_"), [(EVICTED, "pod_evicted"), (LIMIT, "slurm_time_limit")])
@pytest.mark.parametrize("stop", ["Terminated\n", "train.sh: line 9: 4711 Killed                  python train.py\n"])
def test_a_signal_gives_way_to_a_later_reason_of_its_sender(end: str, id_: str, stop: str) -> None:
    assert first(f"{STEPS}{stop}{end}").id == id_
    assert first(f"{STEPS}{end}{STEPS}{stop}").id != id_, "what came long before is no reason"


SRUN_KILLED = "srun: error: n2: task 1: Killed\n"


def test_the_node_whose_task_was_killed_comes_before_what_slurm_does_about_it() -> None:
    cancelled = "slurmstepd-n1: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-02-11T04:00:00 ***\n"
    after = f"{cancelled}srun: error: n1: task 0: Terminated\n"
    found = first(f"{SRUN_KILLED}{after}")
    assert (found.id, found.title) == ("srun_killed", "Task 1 on n2 was killed")
    assert first(f"{cancelled}{SRUN_KILLED}").id == "slurm_cancelled", "scancel kills what does not end"
    assert first(f"{FRAMES}ValueError: bad batch\n{SRUN_KILLED}{after}").id == "exception"


@pytest.mark.parametrize("begin", ["", "    main()\n", "in <module>\n    main()\n"])
def test_a_traceback_whose_beginning_is_missing_is_read(begin: str) -> None:
    found = first(f"{begin}{FRAMES}shards.read.ShardFault: shard 17 is empty\n")
    assert (found.id, found.title) == ("exception", "The script failed with ShardFault at train.py:60 (main)")


def test_a_part_of_a_log_may_begin_within_a_traceback() -> None:
    log = LogScan("train.log")
    log.feed(STEPS.encode())
    log.skip()
    log.feed(f"{FRAMES}shards.read.ShardFault: shard 17 is empty\n".encode())
    log.end()
    assert explain([log]).findings[0].title == "The script failed with ShardFault at train.py:60 (main)"


@pytest.mark.parametrize("begin", ["step 1\nstep 2\n", "Stack (most recent call last):\nlogged\n"])
def test_frames_after_other_lines_are_not_a_traceback(begin: str) -> None:
    assert scan(f"{begin}{FRAMES}shards.read: shard 17 is empty\n").observations == []


def test_the_rest_of_a_stack_is_not_a_failure() -> None:
    assert explain([scan(f"{FRAMES}step: 7\n{STEPS}")]).findings == ()


NOTEBOOK = """\
---------------------------------------------------------------------------
ValueError                                Traceback (most recent call last)
Cell In[12], line 5
      3 model.train()
----> 5     loss = step(batch)

File ~/work/train.py:60, in step(batch)
     58 def step(batch):
---> 60         raise ValueError("shard 17 is empty")

ValueError: shard 17 is empty
"""


def test_a_notebook_s_traceback_is_read() -> None:
    found = first(NOTEBOOK)
    assert (found.id, found.title) == ("exception", "The script failed with ValueError at train.py:60 (step)")
    cell = NOTEBOOK.partition("\nFile")[0] + "\n\nValueError: shard 17 is empty\n"
    assert first(cell).title == "The script failed with ValueError at cell 12, line 5"


def test_a_notebook_that_continues_has_caught_the_exception() -> None:
    assert all(found.confidence == "possible" for found in explain([scan(NOTEBOOK + STEPS)]).findings)


def test_an_exception_is_shown_with_a_message_that_begins_on_the_next_line() -> None:
    head = f"Traceback (most recent call last):\n{FRAMES}"
    assert "backend='x' raised: KeyError: 'op'" in first(f"{head}dynamo.Failed: backend='x' raised:\nKeyError: 'op'\n").cause
    assert "ShardFault: shard 17 is empty." in first(f"{head}shards.ShardFault:\n\nshard 17 is empty\n").cause


def test_an_exception_of_a_class_within_a_function_is_one() -> None:
    found = first(f"Traceback (most recent call last):\n{FRAMES}shards.read.<locals>.Stop: shard 17\n")
    assert (found.id, found.cause) == ("exception", "shards.read.<locals>.Stop: shard 17.")


TROUBLE = (
    "ls: cannot access '/data/imagenet': No such file or directory",
    "client_loop: send disconnect: Broken pipe",
    "exec /entrypoint.sh: exec format error",
    "run.sh: line 12: /opt/venv/bin/activate: No such file or directory",
    "Node is not ready",
    "google.api_core.exceptions.Forbidden: 403 GET https://storage: caller does not have access",
    "Error in rule train:",
    "mesh: unable to allocate the necessary buffers for this exchange:",
)


@pytest.mark.parametrize("line", TROUBLE)
@pytest.mark.parametrize("after", ["", "some more words\n"])
def test_trouble_at_the_end_is_shown_where_nothing_else_is_known(line: str, after: str) -> None:
    (found,) = explain([scan(f"{STEPS}{line}\n{after}")]).findings
    assert (found.id, found.confidence) == ("last_words", "possible")
    assert line in found.title


def test_an_error_that_glog_marks_is_the_last_word() -> None:
    line = "[rank0]:[E501 10:00:00.1 Module.cpp:12] Rank 0 could not map the segment of worker 3"
    found = first(f"{STEPS}{line}\n")
    assert (found.title.startswith("The log ends with an error: "), found.confidence) == (True, "possible")


@pytest.mark.parametrize("line", TROUBLE)
def test_trouble_before_the_last_steps_or_a_result_is_ignored(line: str) -> None:
    assert explain([scan(f"{STEPS}{line}\n{STEPS}")]).findings == ()
    assert explain([scan(f"{STEPS}{line}\nmodel saved to out.pt\nbye\n")]).findings == ()


def test_trouble_far_from_the_end_is_ignored() -> None:
    after = "some more words\n" * 4
    assert explain([scan(f"{STEPS}{TROUBLE[0]}\n{after}")]).findings == ()


def test_a_process_that_torchrun_saw_fail_is_named() -> None:
    line = "E0501 10:00:00.1 140 api.py:869] failed (exitcode: {}) local_rank: 3 (pid: 12) of binary: python\n"
    assert (first(line.format(1)).id, first(line.format(1)).confidence) == ("G04", "possible")
    assert (first(line.format(-7)).id, first(line.format(-7)).confidence) == ("D08", "likely")
    assert "/dev/shm" in first(line.format(-7)).cause
    assert (first(line.format(-11)).id, first(line.format(-11)).confidence) == ("signal_crash", "likely")


TIMEOUTS = (
    "google.api_core.exceptions.DeadlineExceeded: 504 Deadline Exceeded",
    "google.api_core.exceptions.DeadlineExceeded: 504 GET https://storage.example/shard-17: reason: DeadlineExceeded",
    "etcd3.exceptions.DeadlineExceeded: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
)
LIMIT = "The batch system ended the job at its time limit"


@pytest.mark.parametrize("line", TIMEOUTS)
@pytest.mark.parametrize("before", ["", f"Traceback (most recent call last):\n{FRAMES}"])
def test_a_request_that_times_out_is_not_a_job_s_time_limit(line: str, before: str) -> None:
    found = explain([scan(f"{STEPS}{before}{line}\n")]).findings
    assert not any(LIMIT in finding.title for finding in found)
    if before:
        assert found[0].title == "The script failed with DeadlineExceeded at train.py:60 (main)"


def test_the_rest_of_an_exception_is_not_a_kubernetes_report() -> None:
    found = first(f"Traceback (most recent call last):\n{FRAMES}shards.ShardFault: 504\n  reason: DeadlineExceeded\n")
    assert (found.id, LIMIT in found.title) == ("exception", False)
    assert LIMIT in first(f"{STEPS}status:\n  reason: DeadlineExceeded\n").title


@pytest.mark.parametrize(
    "name", ["cget_item", "cget_state", "cget_managed_ptr_of", "convert_to_fp16", "cast_bf16", "config_fp32"]
)
def test_a_missing_attribute_of_another_object_is_not_bitsandbytes(name: str) -> None:
    line = f"AttributeError: 'NoneType' object has no attribute '{name}'"
    assert all(item.pattern is None or item.pattern.id != "bnb_no_binary" for item in scan(f"{line}\n").observations)


ENDLESS = {
    "first lines of errors": "terminate called after throwing an instance of 'A'",
    "tracebacks": "Traceback (most recent call last):",
    "announced tracebacks": "During handling of the above exception, another exception occurred:\nERROR: 0 errors",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_unfinished_tracebacks_of_unnumbered_ranks_are_not_kept(name: str) -> None:
    log = LogScan("train.log")
    log.feed(b"begin\nload\n")
    for rank in range(3 * OPEN_MAX):
        log.feed(f"[rank{rank}]: {ENDLESS[name]}\n".encode())
    reading = log._reading
    for kept in (reading._heads, reading.blocks.open, reading.blocks._chained):
        assert len(kept) <= OPEN_MAX


def test_a_first_line_that_is_no_longer_kept_is_shown_alone() -> None:
    begin = "terminate called after throwing an instance of 'A'\n"
    log = (
        "".join(f"[rank{rank}]: {begin}" for rank in range(OPEN_MAX + 1))
        + "[rank0]:   what(): late\n[rank9]:   what(): early\n"
    )
    seen = {item.rank: item.groups.get("why") for item in scan(log).observations if item.pattern is not None}
    assert (seen[0], seen[9]) == (None, "early")


def test_a_traceback_that_is_no_longer_followed_is_shown_as_far_as_it_was_read() -> None:
    log = LogScan("train.log")
    log.feed(b"[rank7]: Traceback (most recent call last):\n[rank7]: KeyError: 'speaker'\n")
    for rank in range(100, 100 + OPEN_MAX):
        log.feed(f"[rank{rank}]: Traceback (most recent call last):\n".encode())
    assert [(item.rank, item.line) for item in log.observations] == [(7, "KeyError: 'speaker'")]


def test_spaces_behind_a_line_are_not_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expressions that end with optional spaces take a time that grows with their square."""
    read: list[str] = []
    monkeypatch.setattr("gputop.doctor.logs.reading.matches", lambda text: read.append(text) or ())
    for line in ("ValueError: the shard is empty", "terminate called after throwing an instance of 'A'"):
        scan(f"[rank3]: {line}{' ' * 3000}\n")
        assert read.pop() == line
