"""The last words of a log: told where no known text and no traceback explains its end; silent where the run went on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.findings.finding import Finding, is_problem
from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.reading import Reading
from gputop.doctor.logs.scan import LogScan

STEPS = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30))


def findings(text: str) -> tuple[Finding, ...]:
    scan = LogScan("train.log")
    scan.feed(text.encode())
    scan.end()
    return explain([scan]).findings


ENDS = {
    "an exception without its traceback": ("ValueError: manifest of shard 3 is empty", "likely", "manifest of shard 3"),
    "another library's exception": ("EnvironmentNameNotFound: Could not find conda environment: trian", "likely", "trian"),
    "a script that gives up": ("Error: the directory /ckpt is not empty, use --force\n", "possible", "not empty"),
    "a logger": ("2025-01-01 10:00:00 CRITICAL trainer: vocabulary of 32000 and embedding of 32128", "possible", "32128"),
    "a check in C++": (
        "F0101 10:00:00.000000 99 main.cc:12] Check failed: n > 0 device list is empty",
        "possible",
        "device list",
    ),
    "a shell": ("run.sh: line 3: NODE_RANK: unbound variable", "likely", "NODE_RANK"),
    "ssh": ("worker-2: Host key verification failed.", "likely", "worker-2"),
    "a container": ("docker: Error response from daemon: no such image: train", "likely", "no such image"),
    "Kubernetes": (
        "Warning  FailedScheduling  0/6 nodes are available: 6 Insufficient nvidia.com/gpu",
        "likely",
        "nvidia.com/gpu",
    ),
    "an exit code": ("Process finished with exit code 139 (interrupted by signal 11: SIGSEGV)", "likely", "SIGSEGV"),
    "a logger in JSON": ('{"level":"ERROR","msg":"the bucket is not readable"}', "possible", "not readable"),
    "a logger of pairs": ('level=error msg="the bucket is not readable"', "possible", "not readable"),
    "an unknown warning of NCCL": ("n1:1:9 [0] net.cc:9 NCCL WARN NET/OFI endpoint failed with -22", "possible", "endpoint"),
    "a full disk": ("cp: error writing '/scratch/x': No space left on device", "likely", "No space left"),
    "curl": ("curl: (6) Could not resolve host: data.local", "likely", "data.local"),
    "MPI": ("MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD", "likely", "rank 2"),
    "an assertion in C": ("python: decode.cpp:99: void decode(): Assertion `n > 0' failed.", "likely", "n > 0"),
    "an abort": ("Aborted (core dumped)", "likely", "Aborted"),
    "Horovod": ("Process 2 exit with status code 1.", "likely", "Process 2"),
    "make": ("make: *** [Makefile:10: train] Error 2", "likely", "Error 2"),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_log_that_ends_with_an_error_is_not_silent(name: str) -> None:
    line, confidence, words = ENDS[name]
    found = findings(f"{STEPS}{line}\n")[0]
    assert found.confidence == confidence
    assert words in found.title + found.cause
    assert any(fact.source.startswith("train.log:") for fact in found.evidence)


@pytest.mark.parametrize("name", ENDS)
def test_a_line_before_more_training_does_not_end_the_run(name: str) -> None:
    line, _, _ = ENDS[name]
    assert findings(f"{STEPS}{line}\n{STEPS}") == ()


HEALTHY = (
    "val error: 0.31",
    "word error rate: 12.1 after rescoring",
    "finished with exit code 0",
    "ERROR",
    "errors: none of the samples failed",
    "ERROR could not upload the sample grid, will retry",
    "WARNING ERROR BAR of the plot is wide",
    "error analysis is written to errors.html",
)


@pytest.mark.parametrize("line", HEALTHY)
def test_a_line_that_only_contains_the_word_is_ignored(line: str) -> None:
    assert findings(f"{STEPS}{line}\n") == ()


WENT_ON = (
    "rm: cannot remove x: Permission denied\nTest accuracy: 93.2%\nModel saved to out.pt",
    "rm: cannot remove x: Permission denied\nmodel saved to disk",
    "cp: error writing '/scratch/x': No space left on device\nUsing the copy on disk\nBuilding the index\nReady\nServing",
    "Dataloader worker returned non-zero status earlier, ignored\nTest accuracy: 93.2%",
    "Dataloader worker returned non-zero status earlier, ignored",
    "make: *** [Makefile:9: optional] Error 2 (ignored)",
    "fatal: not a git repository (or any of the parent directories): .git\nbye",
    "fatal: not a git repository (or any of the parent directories): .git",
    "wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)\nTest accuracy 93.2",
    "wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)",
    "Total ERROR count was zero in all of the shards",
    "FAILED: 0 ERROR: none at all here",
    "[0] NCCL WARN something about IB devices not found\nAll ranks exit cleanly",
    'time=x level=error msg="failed to push metric to gateway"\nfinal acc 93',
    "ERROR: could not load the optional plugin apex\nUsing device cuda\nmodel built ok now",
    "ConnectionError: the tracker does not answer\nResults are written to out.json",
    "requests.exceptions.ConnectionError: could not reach the tracker\nTest accuracy 93.2\nSaved.",
)


@pytest.mark.parametrize("text", WENT_ON)
def test_an_error_before_more_output_of_the_script_does_not_end_the_run(text: str) -> None:
    assert findings(f"{STEPS}{text}\n") == ()


FOLLOWING = (
    "\nrun train.py --help for the options",
    "\n\nReal memory: 3 GB",
    "\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\nsrun: a\nsrun: b\nsrun: c\nsrun: d",
    "\nTraining failed, logs saved to /tmp/x",
)


@pytest.mark.parametrize("text", FOLLOWING)
def test_an_error_that_a_hint_or_a_launcher_s_report_follows_is_the_end(text: str) -> None:
    assert "speaker nine" in findings(f"{STEPS}KeyError: 'speaker nine'{text}\n")[0].cause


def test_three_lines_may_follow_and_no_fourth_one() -> None:
    refusal, line = "run.sh: line 3: NODE_RANK: unbound variable\n", "some other words\n"
    assert findings(STEPS + refusal + line * 3)[0].confidence == "likely"
    assert findings(STEPS + refusal + line * 4) == ()


def test_a_title_is_short_however_long_the_line_is() -> None:
    for line in (f"ValueError: {'shard ' * 200}", f"Process 2 exit with status code 1 {'x' * 900}"):
        found = findings(f"{STEPS}{line}\n")[0]
        assert len(found.title) <= 130
        assert len(found.evidence[0].text) > 300, "the line stands below"


def test_an_error_that_the_end_of_the_run_follows_is_survived() -> None:
    assert findings(f"{STEPS}ERROR the sample grid was not uploaded\ntraining finished\n") == ()


def test_a_known_text_takes_precedence_over_the_last_words() -> None:
    found = findings(f"{STEPS}ERROR: rank 0 gives up\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
    assert found[0].id == "H02"


def test_the_first_error_is_shown_and_not_what_others_report_of_it() -> None:
    found = findings(f"{STEPS}FATAL: tokenizer.model is not in /ckpt\nmake: *** [Makefile:3: train] Error 1\n")
    assert "tokenizer.model" in found[0].title


def test_the_exception_in_a_group_is_shown() -> None:
    log = """\
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
    found = findings(log)[0]
    assert "ValueError at load.py:4 (read)" in found.title
    assert "shard 3 is bad" in found.cause


def test_a_traceback_that_is_cut_off_names_its_place() -> None:
    log = 'Traceback (most recent call last):\n  File "/home/ann/train.py", line 9, in <module>\n    main()\n'
    assert findings(STEPS + log)[0].title == "The log ends within a traceback at train.py:9 (<module>)"
    assert findings(f"{STEPS}{log}KeyError: 'speaker-7'\n")[0].id == "exception"


@pytest.mark.parametrize("line", ['{"step": 1, "error": 0.31, "loss": 2.0}', "worker exit code 0 done", "Exit code: 0"])
def test_an_ordinary_line_is_not_examined(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at one takes some 20 times as long as a search for literals in a whole piece, by the line."""
    looked: list[str] = []
    scan = LogScan("train.log")
    scan.feed(b"begin\nload\n")
    monkeypatch.setattr(Reading, "line", lambda scan, raw, number: looked.append(raw))
    scan.feed(f"{line}\n".encode() * 100)
    assert looked == []
    scan.feed(b"step 3\nProcess exited, exit code 12\n" + f"{line}\n".encode())
    scan.feed(b"step 3\nProcess exited, Exit code: 12\n")
    assert looked == ["Process exited, exit code 12", "Process exited, Exit code: 12"]


def test_each_literal_is_searched_for_once() -> None:
    from gputop.doctor.logs import pieces as module

    assert sorted(trigger for group in module._GROUPS.values() for trigger in group) == sorted(set(module._TRIGGERS))
    assert all(part in trigger for part, group in module._GROUPS.items() for trigger in group)


def test_a_known_text_among_escape_sequences_is_found_below_an_error() -> None:
    log = "ERROR the first batch is skipped here\n\x1b[31mRuntimeE\x1b[1mrror\x1b[0m: CUDA error: invalid device ordinal\n"
    scan = LogScan("train.log")
    scan.feed(log.encode())
    assert [item.pattern.id for item in scan.observations if item.pattern is not None] == ["invalid_ordinal"]


LAUNCHERS = (
    "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.",
)


@pytest.mark.parametrize("line", LAUNCHERS)
def test_a_launcher_s_exception_about_another_process_is_not_the_cause(line: str) -> None:
    frames = 'Traceback (most recent call last):\n  File "/home/ann/{}.py", line 9, in <module>\n    main()\n{}\n'
    found = findings(frames.format("train", "KeyError: 'speaker-7'") + frames.format("start", line))
    assert "KeyError at train.py:9" in found[0].title


@pytest.mark.parametrize("line", [LAUNCHERS[0], LAUNCHERS[2]])  # the other one is a known text
def test_it_is_shown_if_nothing_else_is(line: str) -> None:
    log = f'Traceback (most recent call last):\n  File "/home/ann/start.py", line 9, in <module>\n    main()\n{line}\n'
    assert "start.py:9" in findings(log)[0].title


RULE = "-" * 74 + "\n"
SLOTS = f"""\
{RULE}There are not enough slots available in the system to satisfy the 8
slots that were requested by the application:

  python

Either request fewer slots for your application, or make more slots
available for use.
{RULE}"""
HELP = f"""\
{RULE}The launcher failed to set up its connection to the daemon on node n3.
Please check the following:

  1. the node is up
  2. its firewall lets the port range of the launcher through
  3. its version of the launcher is the same
  4. its library path holds the launcher's libraries
{RULE}"""


def test_the_box_of_help_in_which_a_launcher_refuses_is_shown() -> None:
    found = findings("+ mpirun -np 8 python train.py\n" + SLOTS)[0]
    assert (found.confidence, found.title) == ("certain", "Open MPI has fewer slots than the command asks for (8)")
    found = findings(HELP)[0]
    assert (found.id, found.confidence) == ("last_words", "possible")
    assert "daemon on node n3" in found.title


@pytest.mark.parametrize("box", [HELP, SLOTS, f"{RULE}training complete, best score 0.91\n{RULE}"])
def test_a_box_before_more_training_or_without_trouble_does_not_end_the_run(box: str) -> None:
    assert [item for item in findings(f"{STEPS}{box}{STEPS}") if item.confidence != "possible"] == []
    if box not in (HELP, SLOTS):
        assert findings(STEPS + box) == ()


def test_a_repeated_message_about_waiting_is_shown() -> None:
    log = "".join(f"(scheduler +{at}m) Error: the pool a100 has no room for 4 workers\n" for at in range(5))
    assert "the pool a100" in findings(f"starting\n{log}")[0].title
    assert findings(f"starting\n{log}{STEPS}") == ()


WARN = "n1:1:9 [0] bootstrap.cc:9 NCCL WARN Bootstrap : root has the ids of 3 ranks, and 4 came\n"
INFO = "n1:1:9 [0] NCCL INFO bootstrap.cc:75 -> 6\n"
LOST = (
    '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/home/ann/train.py", line 9, in main\n'
    "[rank1]: torch.distributed.DistBackendError: NCCL error in: a.hpp:9, remote process exited or there was a network error\n"
    "[rank1]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
)


def test_an_unknown_warning_of_nccl_comes_before_the_connections_that_are_lost_after_it() -> None:
    found = findings(f"{WARN}{INFO * 9}{LOST}")[0]
    assert (found.id, found.confidence) == ("last_words", "likely")
    assert "ids of 3 ranks" in found.title


def test_an_unknown_warning_of_nccl_before_more_training_is_ignored() -> None:
    assert findings(f"{WARN}{INFO * 9}{STEPS}") == ()
    assert findings(f"{WARN}{STEPS}{LOST}")[0].id != "last_words"


HEALTHY_ENDS = (
    "Early stopping: patience exceeded",
    "Early stopping triggered: patience of 10 exceeded.",
    "EarlyStopping: val_loss did not improve, the run cannot get better",
    "early stop: failed to improve on the best validation loss",
    "Skipped 3 samples, failed: 0",
    "Uploads ok: 14, failed: none",
    "Tests passed, failed: 0 of 20 checks",
    "20 passed, 0 failed",
    "14 checks passed and 2 samples failed.",
    "3 of 12000 images failed.",
    "None of the workers failed.",
    "no batch of the epoch failed.",
    "The job was never preempted.",
    "preempted: 0 times",
    "training was not interrupted",
    "xformers not available, using sdpa",
    "xformers cannot be imported, using sdpa",
    "Could not find flash-attn; using eager attention",
    "Unable to import apex, falling back to torch.amp",
    "Couldn't find a cached tokenizer, building it instead",
    "Failed to import triton (optional)",
    "Cannot read the old cache, skipped",
    "can't open the display, continuing headless",
    "failed to reach the tracker, running in offline mode",
    "bf16 is not supported on this GPU",
    "fused AdamW not available",
    "max_steps exceeded, exiting",
    "max_time exceeds the budget of the sweep",
    "INFO: unable to find wandb key, offline mode",
    "INFO: unable to find wandb key",
    "2025-01-01 10:00:00,123 - trainer - INFO - cannot improve any further",
    "[DEBUG] could not read .netrc",
    "Note: failed to tune the batch size",
    "torch.nn.Module",
    "torch.optim.AdamW: lr 0.001, betas 0.9 and 0.999",
    "transformers.models.llama.LlamaForCausalLM",
    "torchmetrics.MeanSquaredError: 0.0312",
    "torchmetrics.MeanAbsoluteError",
    "MeanSquaredError: 0.0312",
    "keras.losses.MeanSquaredLogarithmicError: 1.2e-05",
    "Error in reconstruction: 0.031",
    "Error during rotation = 1.2 %",
    "optuna.exceptions.TrialPruned: the objective is above the median",
    "sklearn.exceptions.ConvergenceWarning",
    "Loss cannot be improved",
    "Cannot improve on the best score any more, stopping",
    "lr scheduler: cannot decrease further",
    "Job preemption disabled",
    "CUDA graphs cannot be captured for this model, running eagerly",
    "Wrote 12 failed examples to failed.json",
    "Checkpoint limit exceeded; deleting the oldest",
)
"""How runs end that reached their end."""


@pytest.mark.parametrize("line", HEALTHY_ENDS)
@pytest.mark.parametrize("before", ["", "Training done in 3 min\n"])
def test_a_run_that_ended_well_has_no_finding(line: str, before: str) -> None:
    assert findings(f"{STEPS}{before}{line}\n") == ()


REAL_TROUBLE = (
    "Training failed.",
    "Rank 3 failed.",
    "4 workers failed.",
    "Failed to connect to worker-2",
    "Unable to reach the license server",
    "Cannot continue without the shard list",
    "The node was preempted",
    "Preemption notice from the cloud",
    "An error occurred while the tokenizer was built",
    "Error loading shard 17",
)


@pytest.mark.parametrize("line", REAL_TROUBLE)
def test_trouble_in_prose_is_a_possible_warning_unless_the_run_reported_success(line: str) -> None:
    (found,) = findings(f"{STEPS}{line}\n")
    assert (found.id, found.severity, found.confidence) == ("last_words", "warning", "possible")
    assert not is_problem(found), "the run may well have reached its end"
    assert findings(f"{STEPS}Training done in 3 min\n{line}\n") == ()
    for mark in ("Epoch done", "Training is not complete"):
        assert [item.title for item in findings(f"{STEPS}{mark}\n{line}\n")] == [found.title]


REFUSED = (
    "ray.exceptions.RayActorError",
    "botocore.exceptions.NoCredentials: there are none",
    "paramiko.errors.Refused: 22 is closed",
    "shards.read.ShardTimeout: shard 17",
)


@pytest.mark.parametrize("line", REFUSED)
def test_a_call_that_failed_is_shown_even_after_the_end_of_training(line: str) -> None:
    assert findings(f"{STEPS}Training done in 3 min\n{line}\n")[0].id == "last_words"


def test_an_error_that_the_log_ends_with_is_shown_but_possible() -> None:
    """Scripts continue after many of them: nothing shows that this one ended the run."""
    (found,) = findings(f"{STEPS}ERROR: the shards of rank three are empty\n")
    assert (found.severity, found.confidence, is_problem(found)) == ("error", "possible", False)


CUT = (
    "Traceback (most recent call last):\n"
    '  File "/srv/tune.py", line 88, in <module>\n    main()\n'
    '  File "/srv/tune.py", line 71, in main\n    loss.backward()\n'
)
NO_GRADIENTS = (
    "/env/torch/utils/checkpoint.py:90: UserWarning: None of the inputs have requires_grad=True. Gradients will be None"
)


@pytest.mark.parametrize(
    ("lines", "ids"),
    {
        "a hint at the cause, and no more": (f"{NO_GRADIENTS}\n{CUT}", ["J03", "last_words"]),
        "a cut traceback alone": (CUT, ["last_words"]),
        "an error that says what it is": (f"{NO_GRADIENTS}\nKeyedError: no such sample: 8841\n", ["last_words", "J03"]),
        "only a fact about the run": (
            f"Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n{CUT}",
            ["last_words", "D04"],
        ),
    }.values(),
)
def test_what_may_be_the_cause_comes_before_words_that_only_show_the_end(lines: str, ids: list[str], tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"model loaded\n{lines}")
    found = [item.id for item in explain_logs([str(log)])[0]]
    assert [id_ if id_ != "exception" else "last_words" for id_ in found] == ids
