"""What a log says: every known text with its values, tracebacks of several ranks, and which failure came first."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.doctor.findings.finding import CONFIDENCES, SEVERITIES
from gputop.doctor.logs.kept import KEPT_FIRST, KEPT_LAST
from gputop.doctor.logs.lines import rank_and_text, time_of
from gputop.doctor.logs.meaning.explain import Explanation, explain
from gputop.doctor.logs.meaning.refuted import REFUTED_BY
from gputop.doctor.logs.patterns.table import IDS, PATTERNS, matches, pattern_of
from gputop.doctor.logs.scan import LogScan
from gputop.doctor.rules.texts.known import JUDGED_ELSEWHERE
from tests.doctor.logs.samples import MATCHING, NOT_MATCHING
from tests.doctor.logs.samples_sources import SOURCES
from tests.fuzzing import examples

CATALOGUE = [
    "cuda_deser_unavailable",
    "cuda_deser_ordinal",
    "not_compiled_cuda",
    "no_driver",
    "driver_too_old",
    "arch_unsupported",
    "err802",
    "cuda_unknown_env",
    "bad_device_string",
    "invalid_ordinal",
    "devices_busy",
    "nvml_mismatch",
    "nvml_unknown",
    "two_devices",
    "dp_replica_error",
    "dp_not_on_dev0",
    "dp_kwargs_mismatch",
    "dp_scatter_scalar",
    "dp_gather_scalar",
    "hf_n_gpu",
    "dp_imbalance",
    "ddp_devids_cpu",
    "ddp_not_needed",
    "hf_devicemap_dist",
    "hf_8bit_device",
    "local_rank_dash",
    "launch_deprecated",
    "omp1",
    "env_rdzv_missing",
    "pg_not_init",
    "addr_in_use",
    "rdzv_timeout",
    "child_failed",
    "pl_notebook",
    "pl_gpu_unused",
    "pl_slurm_tasks",
    "pl_workers",
    "ds_cvd_ignored",
    "acc_p2p",
    "nccl_dup_gpu",
    "barrier_guess",
    "nccl_watchdog",
    "nccl_heartbeat",
    "nccl_no_interface",
    "nccl_connect",
    "nccl_peer_closed",
    "nccl_ib",
    "nccl_ib_memory",
    "nccl_ib_call",
    "nccl_cuda_oom",
    "nccl_cuda",
    "nccl_shm",
    "nccl_sys",
    "nccl_remote",
    "nccl_version",
    "gloo_peer",
    "coll_mismatch",
    "param_shape",
    "unused_params",
    "unused_idx",
    "ready_twice",
    "fup_useless",
    "module_prefix",
    "sampler_excl",
    "oom",
    "oom_other_proc",
    "worker_bus",
    "worker_killed",
    "fd_limit",
    "too_many_workers",
    "fork_cuda",
    "pin_no_accel",
    "rnn_flat",
    "xid",
    "ecc",
    "illegal",
    "sigkill",
    "nan_loss",
]
WRITTEN = 1_795_235_000.0  # November 2026


def scan(text: str, name: str = "train.log", rank: int | None = None, size: int = 700) -> LogScan:
    found = LogScan(name, rank, WRITTEN)
    data = text.encode()
    for start in range(0, len(data), size):
        found.feed(data[start : start + size])
    found.end()
    return found


def told(*texts: str) -> Explanation:
    return explain([scan(text) for text in texts])


def traceback(error: str, prefix: str = "", line: int = 41) -> str:
    lines = [
        "Traceback (most recent call last):",
        f'  File "/home/ada/train.py", line {line}, in main',
        "    loss = model(x)",
        "           ^^^^^^^^",
        '  File "/opt/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1778, in _wrapped_call_impl',
        "    return self._call_impl(*args, **kwargs)",
        *error.splitlines(),
    ]
    return "".join(f"{prefix}{line}\n" for line in lines)


def torchrun_summary(root: int, exitcode: str = "1", others: Iterable[int] = (), time: str = "2026-11-21_04:25:52") -> str:
    def entry(index: int, rank: int, code: str) -> str:
        return (
            f"[{index}]:\n  time      : {time}\n  host      : node7\n  rank      : {rank} (local_rank: {rank})\n"
            f"  exitcode  : {code} (pid: {8000 + rank})\n  error_file: <N/A>\n  traceback : To enable traceback see: https://x\n"
        )

    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/bin/torchrun", line 7, in <module>\n'
        "    sys.exit(main())\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        f"{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\nFailures:\n"
        + "".join(entry(index + 1, rank, "-15") for index, rank in enumerate(others))
        + f"{'-' * 60}\nRoot Cause (first observed failure):\n{entry(0, root, exitcode)}{'=' * 60}\n"
    )


GLOO = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:38826. GLHF!"
OOM = MATCHING[[name for name, _, _ in MATCHING].index("oom")][1]


# The table.


def test_every_text_of_the_catalogue_has_a_pattern_and_a_sample() -> None:
    assert set(CATALOGUE) <= set(IDS)
    assert set(IDS) <= {name for name, _, _ in MATCHING}
    assert set(IDS) >= JUDGED_ELSEWHERE


@pytest.mark.parametrize(("name", "line", "values"), MATCHING, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(MATCHING)])
def test_a_line_is_known_with_its_values(name: str, line: str, values: dict[str, str]) -> None:
    found = {pattern.id: groups for pattern, groups in matches(line)}
    assert name in found, list(found)
    assert {key: found[name].get(key) for key in values} == values
    pattern, groups = pattern_of(name, line) or (None, {})
    assert pattern is not None
    said = [(template, pattern.said(template, groups)) for template in (pattern.title, pattern.means)]
    for template, text in (*said, (pattern.fix, pattern.command(groups))):
        assert text.strip()
        for key, value in values.items():
            assert f"{{{key}}}" not in template or value in text


def test_a_scan_stops_at_each_known_line() -> None:
    for name, line, _ in MATCHING:
        known = {seen.pattern.id for seen in scan(f"{line}\n").observations if seen.pattern is not None}
        assert name in {*known, "state_dict_names"}, line


@pytest.mark.parametrize("line", NOT_MATCHING)
def test_an_ordinary_line_matches_no_pattern(line: str) -> None:
    assert [pattern.id for pattern, _ in matches(line)] == []
    assert told(f"{line}\n").findings == ()


def test_a_row_is_whole() -> None:
    for pattern in PATTERNS:
        assert pattern.severity in SEVERITIES
        assert pattern.confidence in CONFIDENCES
        assert pattern.cause is None or re.fullmatch(r"[A-J]\d\d", pattern.cause)
        re.compile(pattern.expression)
        assert not (pattern.cascade and pattern.kind == "hint")


def test_the_more_telling_text_comes_first() -> None:
    line = next(line for name, line, _ in MATCHING if name == "oom_other_proc")
    assert [pattern.id for pattern, _ in matches(line)] == ["oom_other_proc", "oom"]


def test_every_finding_of_a_log_says_what_would_refute_it() -> None:
    for _, line, _ in MATCHING:
        for log in (f"{line}\n", traceback(line), line + "\n" + torchrun_summary(0), traceback("ValueError: no") + line):
            for finding in told(log).findings:
                assert finding.refuted_by.strip(), finding


def test_each_text_on_what_refutes_belongs_to_a_known_text() -> None:
    assert set(REFUTED_BY) <= set(IDS)
    assert {pattern.id for pattern in PATTERNS if not pattern.refuted_by} == set(REFUTED_BY)


# Which failure came first.


MISSING = "\tMissing key(s) in state_dict: "
UNEXPECTED = "\tUnexpected key(s) in state_dict: "
LOADING = "RuntimeError: Error(s) in loading state_dict for Net:\n"


@pytest.mark.parametrize(
    ("lists", "id_"),
    [
        (MISSING + '"conv.weight". \n' + UNEXPECTED + '"module.conv.weight". ', "C13"),
        (MISSING + '"module.conv.weight". \n' + UNEXPECTED + '"conv.weight". ', "C13"),
        (MISSING + '"module.head.weight". \n' + UNEXPECTED + '"module.fc.weight". ', "state_dict_names"),
        (MISSING + '"module.head.weight". ', "state_dict_names"),
        (UNEXPECTED + '"module.fc.weight". ', "state_dict_names"),
        (MISSING + '"conv.weight". \n' + UNEXPECTED + '"_orig_mod.conv.weight". ', "state_dict_names"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
def test_names_of_a_checkpoint_differ_by_the_wrapper_s_prefix_or_by_more(lists: str, id_: str, prefix: str) -> None:
    assert [finding.id for finding in told(traceback(LOADING + lists, prefix)).findings] == [id_]
    alone = "".join(f"{prefix}{line}\n" for line in (LOADING + lists).splitlines())
    assert [finding.id for finding in told(alone).findings] == [id_], "without the frames above"


def test_sizes_of_a_checkpoint_that_differ_without_the_frames_above() -> None:
    sizes = (
        "\tsize mismatch for fc.weight: copying a param with shape torch.Size([40, 64]) from checkpoint, "
        "the shape in current model is torch.Size([7, 64]).\n"
    )
    assert [finding.id for finding in told(LOADING + sizes).findings] == ["shape_differs"]
    steps = "".join(f"step {step} loss {3 - step / 90:.3f}\n" for step in range(60))
    went_on = told(f"{LOADING}{sizes}falling back to random weights\n{steps}").findings
    assert {finding.confidence for finding in went_on} == {"possible"}


def test_outside_a_traceback_only_the_prefix_of_checkpoint_names_counts() -> None:
    """A script that loads with strict=False may print them."""
    assert told(MISSING + '"fc.weight", "fc.bias".\n').findings == ()
    assert [finding.id for finding in told(MISSING + '"module.fc.weight".\n').findings] == ["C13"]


SKIPPED = "I0614 12:05:40.000 1401 trainer.py:201] step=3400 loss=2.3\n" * 2


def test_a_script_that_announces_a_skip_continues() -> None:
    """Also where it logs in glog's form, which torch's own C++ code has, too."""
    log = "W0614 12:05:30.900 1401 wds.py:88] skipping sample 3:\n" + traceback("PIL.UnidentifiedImageError: no image")
    assert [finding.confidence for finding in told(log + SKIPPED).findings] == ["possible"]
    assert [finding.confidence for finding in told(log).findings] == ["certain"], "nothing shows that it went on"
    assert [finding.confidence for finding in told(log.replace("skipping", "reading") + SKIPPED).findings] == ["likely"]


@pytest.mark.parametrize(("times", "level"), [(1, "certain"), (4, "possible")])
def test_an_error_that_a_run_survived_repeatedly_did_not_end_it(times: int, level: str) -> None:
    """A language model writes such texts; the last one has only the end of the log behind it."""
    progress = "".join(f"step {at} | loss 2.{at}\n" for at in range(3))
    sample = f"A: it was RuntimeError: {OOM}\n" + traceback(f"torch.cuda.OutOfMemoryError: {OOM}") + "Killed\n---\n"
    explained = told((progress + sample) * times + "saved to out/qa\n")
    assert explained.findings[0].confidence == level
    assert explained.ended is (times == 1)


def test_the_last_of_texts_that_a_run_survived_ends_it_where_no_progress_follows() -> None:
    """Batches that do not fit are caught three times; the fourth time nobody catches it."""
    progress = "".join(f"step {at} loss 2.{at}\n" for at in range(5))
    caught = progress + traceback(f"torch.OutOfMemoryError: {OOM}")
    ended = told(caught * 4)
    assert ended.ended
    assert [(finding.severity, finding.confidence) for finding in ended.findings] == [("error", "likely")]
    assert [fact.text for fact in ended.findings[0].evidence][
        1
    ] == "progress followed 3 of these texts, and none follows this one"
    survived = told(caught * 4 + progress)
    assert not survived.ended
    assert survived.findings[0].evidence[1].text == "progress followed this text 4 times: it ended no run"


def test_a_warning_with_a_fallback_raises_no_alarm() -> None:
    warned = "WARNING CUDA out of memory with batch=64. Reducing to batch=32 and retrying (1/3).\n"
    assert [finding.confidence for finding in told(warned + PROGRESS).findings] == ["possible"]


def test_a_shell_continues_after_a_missing_command() -> None:
    missing = "slurm_script: line 21: nvidia_smi: command not found\n"
    script = "0: python: can't open file '/home/ada/trian.py': [Errno 2] No such file or directory\n"
    assert [finding.id for finding in told(missing + script).findings] == ["script_not_found"]
    assert [finding.id for finding in told(missing).findings] == ["command_not_found"]


def test_a_name_without_an_address_of_any_kind_comes_before_the_rendezvous_that_fails_of_it() -> None:
    def line(kind: str) -> str:
        why = "(gai error: -2 - Name or service not known)"
        return f"[W socket.cpp:601] [c10d] The {kind} network addresses of (head.ib, 29400) cannot be retrieved {why}.\n"

    lost = traceback("torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection has failed.")
    assert told(line("IPv6") + line("IPv4") + lost).findings[0].title.startswith("The name head.ib has no address:")
    assert told(line("IPv6") + lost).findings[0].title.startswith("This node cannot reach the rendezvous")


def test_an_assertion_in_a_kernel_comes_before_what_the_host_hears_of_it() -> None:
    kernel = "Indexing.cu:1292: indexSelect: block: [2,0,0], thread: [64,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
    failed = traceback("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`")
    (finding,) = told(kernel * 24 + failed).findings
    assert finding.title == "An assertion failed inside a CUDA kernel: srcIndex < srcSelectDimSize"


def test_no_line_is_evidence_twice() -> None:
    line = next(line for name, line, _ in MATCHING if name == "oom_other_proc")
    for error in (line, OOM, f"{OOM}\n{OOM}"):
        (finding,) = told(traceback(error)).findings
        texts = [fact.text for fact in finding.evidence]
        assert len(texts) == len(set(texts)), texts


def test_nccl_s_own_warning_says_more_than_the_error_of_the_rank_that_torchrun_names() -> None:
    warned = (
        "node11:51206:51443 [3] misc/ibvwrap.cc:115 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n"
    )
    error = (
        "torch.distributed.DistBackendError: NCCL error, unhandled system error, NCCL version 2.20.5\n"
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error."
    )
    failed = traceback(error)
    assert told(warned + failed).findings[0].id == "nccl_ib_memory"
    assert told(failed).findings[0].id == "G05"
    warned, failed = f"[default3]:{warned}", traceback(error, "[default5]:") + torchrun_summary(5)
    assert told(warned + failed).findings[0].id == "nccl_ib_memory"
    assert told(failed + warned).findings[0].id == "G05", "what another rank says later is no reason"
    full = traceback(OOM, "[default5]:") + torchrun_summary(5)
    assert told(warned + full).findings[0].id == told(full).findings[0].id, "it has a reason of its own"


def test_the_drivers_log_says_what_an_unknown_error_was() -> None:
    failed = traceback("RuntimeError: CUDA error: unknown error")
    xid = "NVRM: Xid (PCI:0000:43:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    assert told(failed + xid).findings[0].id == "I05"
    assert told(xid + failed).findings[0].id == "I05"
    assert told(failed).findings[0].id == "exception"
    aborted = told(f"terminate called after throwing an instance of 'c10::DistBackendError'\n{xid}")
    assert aborted.findings[0].id == "I05", "an abort says less"
    known = told(traceback("RuntimeError: CUDA error: device-side assert triggered") + xid.replace("79", "13"))
    assert known.findings[0].id != "I04", "that Xid is a consequence"


def test_a_process_that_aborts_because_a_peer_has_left() -> None:
    left = (
        "[rank3]:[E211 04:24:41.384412919 ProcessGroupNCCL.cpp:1595] [PG ID 0 Rank 3] Process group watchdog thread terminated "
        "with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
        "Last error:\nsocketProgress: Connection closed by remote peer gpu-09.int.cluster<41051>\n"
    )
    aborts = "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    assert told(left + aborts).findings[0].id != "cpp_terminate"
    assert told(aborts).findings[0].id == "cpp_terminate"


def test_an_xid_is_shown_with_what_its_number_means() -> None:
    def log(xid: int) -> str:
        return f"[ 812.1] NVRM: Xid (PCI:0000:3b:00): {xid}, pid=812, name=python\n"

    (finding,) = told(log(79)).findings
    assert finding.title == "The driver reported Xid 79, the GPU has fallen off the bus (GPU at 0000:3b:00.0)"
    assert "check power cables" in finding.fix
    (finding,) = told(log(95)).findings
    assert "nvidia-smi --gpu-reset -i 0000:3b:00.0" in finding.fix
    (finding,) = told(log(13)).findings
    assert "compute-sanitizer" in finding.fix
    (finding,) = told(log(999)).findings
    assert "look Xid 999 up" in finding.fix
    assert told(log(45)).findings == (), "every killed job leaves one"


PROGRESS = "".join(f"epoch {epoch} step {step} loss 0.{step}\n" for epoch in range(2) for step in range(4))
LATER = "".join(f"epoch {epoch} step {step} loss 0.{step}\n" for epoch in range(2, 4) for step in range(4))
FLAKY = traceback("RuntimeError: flaky")


@pytest.mark.parametrize(
    ("log", "severity", "confidence", "title"),
    [
        (
            FLAKY + "retrying...\n" + PROGRESS + "training done\n",
            "warning",
            "possible",
            "The script went on after RuntimeError",
        ),
        (FLAKY + "epoch 1 loss 0.4\nepoch 2 loss 0.3\nTraining finished.\n", "warning", "possible", "The script went on after"),
        (PROGRESS + FLAKY + LATER, "error", "likely", "The script failed with RuntimeError"),
        (traceback(OOM) + "batch size halved, retrying\n" + PROGRESS, "warning", "possible", "GPU 3 is full"),
        (
            FLAKY + "Epoch 1:  3%|# | 3/99 [00:01<00:02, 5.1it/s]\r" * 3,
            "error",
            "likely",
            "The script failed with RuntimeError",
        ),
        (PROGRESS + FLAKY, "error", "certain", "The script failed with RuntimeError"),
        (FLAKY + "saving what there is\n", "error", "certain", "The script failed with RuntimeError"),
        (FLAKY + PROGRESS + "Aborted (core dumped)\n", "error", "certain", "The script failed with RuntimeError"),
        (FLAKY + PROGRESS + "srun: error: node1: task 0: Exited with exit code 1\n", "error", "certain", "The script failed"),
        (FLAKY + PROGRESS + torchrun_summary(0), "error", "certain", "The script failed with RuntimeError"),
        (
            FLAKY + "retrying\n" + PROGRESS + traceback("ValueError: b", line=9),
            "error",
            "certain",
            "The script failed with ValueError",
        ),
        # What ended before the traceback says nothing about it: a search reports each trial.
        (
            "Trial 4 finished with value: 0.31. Best is trial 2.\n" + FLAKY + PROGRESS,
            "error",
            "likely",
            "The script failed with RuntimeError",
        ),
        ("epoch 3 done\n" + FLAKY + PROGRESS, "error", "likely", "The script failed with RuntimeError"),
        (
            FLAKY + PROGRESS + "Trial 5 finished with value: 0.31. Best is trial 2.\n",
            "warning",
            "possible",
            "The script went on after",
        ),
        # Python buffers 8 KiB of output, whose rest is written when the script ends.
        (PROGRESS[:-4] + FLAKY + "0.3\n" + PROGRESS, "error", "certain", "The script failed with RuntimeError"),
        (
            traceback("RuntimeError: x", "[rank1]: ") + "".join(f"[rank0]: {line}\n" for line in PROGRESS.splitlines()),
            *("error", "certain", "Rank 1 failed with RuntimeError"),
        ),
        (
            traceback("RuntimeError: x", "[rank1]: ") + "".join(f"[rank1]: {line}\n" for line in PROGRESS.splitlines()),
            *("error", "likely", "Rank 1 failed with RuntimeError"),
        ),
    ],
)
def test_an_exception_that_progress_follows_is_not_certain(log: str, severity: str, confidence: str, title: str) -> None:
    finding = told(log).findings[0]
    assert (finding.severity, finding.confidence) == (severity, confidence)
    assert finding.title.startswith(title)
    # A job that is known to have failed did so of it.
    assert explain([scan(log)], failed=True).findings[0].confidence == "certain"


RAISED = [(name, line) for name, line, _ in SOURCES if re.match(r"[\w.]+(?:Error|Exception)\b", line)]


@pytest.mark.parametrize(("name", "line"), RAISED, ids=[f"{name}-{index}" for index, (name, _) in enumerate(RAISED)])
def test_an_exception_of_a_known_text_is_named_with_its_rank_and_line(name: str, line: str) -> None:
    pattern, _ = pattern_of(name, line) or (None, None)
    assert pattern is not None
    finding = told(PROGRESS + traceback(line, "[rank3]: ")).findings[0]
    assert finding.id == (pattern.cause or pattern.id)
    assert finding.evidence[0].text.startswith("rank 3 said: ")
    assert finding.evidence[0].source == f"train.log:{PROGRESS.count(chr(10)) + 7}"


def test_output_of_a_batch_system_after_an_exception_is_not_part_of_it() -> None:
    missing = traceback("ModuleNotFoundError: No module named 'apex'")
    for end in ("srun: error: node-12: task 0: Exited with exit code 1", "make: *** [Makefile:3: train] Error 1"):
        finding = told(f"{missing}{end}\n").findings[0]
        assert finding.id == "module_missing"
        assert "github.com/NVIDIA/apex" in finding.fix
    assert [finding.id for finding in told(FLAKY + "srun: error: n1: task 0: Exited with exit code 1\n").findings] == [
        "exception"
    ]


def test_an_exception_comes_before_the_kill_that_follows_unless_the_script_continued() -> None:
    for end in ("Killed\n", "Segmentation fault (core dumped)\n"):
        assert told(FLAKY + end).findings[0].id == "exception"
        assert explain([scan(FLAKY + end)], failed=True).findings[0].id == "exception"
    assert told(FLAKY + PROGRESS + "Killed\n").findings[0].id == "H05"
    assert explain([scan(FLAKY + PROGRESS + "Killed\n")], failed=True).findings[0].id == "H05"


def test_the_line_that_says_which_system_call_failed_says_more_than_the_one_before_it() -> None:
    vague = (
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, unhandled system error\nncclSystemError: System"
    )
    (alone,) = told(traceback(f"{vague} call failed.")).findings
    assert alone.id == "G05"
    last = f"{vague} call failed.\nLast error:\nsocketStartConnect: Connect to 10.0.0.9<4123> failed : No route to host"
    (finding,) = told(traceback(last, "[rank8]: ")).findings
    assert (finding.id, finding.title) == ("nccl_connect", "NCCL cannot reach 10.0.0.9<4123>: No route to host")


def test_ranks_that_lost_the_store_are_not_the_cause_even_if_they_come_first() -> None:
    lost = traceback("torch.distributed.DistNetworkError: failed to recv, got 0 bytes", "[rank1]: ")
    finding = told(lost + traceback("KeyError: 'labels'", "[rank0]: ", line=88)).findings[0]
    assert (finding.id, finding.title) == ("exception", "Rank 0 failed with KeyError at train.py:88 (main)")
    assert told(lost).findings[0].confidence == "possible"


def test_slurm_s_memory_limit_is_the_root_of_what_the_other_ranks_say() -> None:
    killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.\n"
    explanation = told(traceback(GLOO, "[rank0]: ") + killed + "srun: error: node1: task 3: Out Of Memory\n")
    (finding,) = explanation.findings
    assert (finding.id, finding.severity, finding.confidence) == ("H05", "error", "certain")
    assert "sacct -j 4711 " in finding.fix
    (named,) = told("srun: error: node1: task 3: Out Of Memory\n").findings
    assert named.title == "The job reached its memory limit in Slurm: task 3 killed"


def test_the_root_is_the_rank_that_torchrun_names_and_not_the_cascade() -> None:
    text = (
        traceback(GLOO, "[rank0]: ")
        + traceback("ValueError: the real error", "[rank1]: ", 34)
        + torchrun_summary(1, others=[0])
    )
    explanation = told(text)
    assert explanation.root is not None
    assert (explanation.root.rank, explanation.root.line, explanation.root.where) == (
        1,
        "ValueError: the real error",
        "train.py:34 (main)",
    )
    first = explanation.findings[0]
    assert first.title == "Rank 1 failed with ValueError at train.py:34 (main)"
    assert any("gloo_peer" in fact.text for fact in first.evidence)
    assert any("torchrun" in fact.source and "rank 1" in fact.text for fact in first.evidence)
    assert {item.pattern.id for item in explanation.consequences if item.pattern} == {"gloo_peer", "child_failed"}


def test_without_torchrun_a_cascade_is_never_the_root() -> None:
    assert told(traceback(GLOO, "[rank0]: ") + traceback(OOM, "[rank3]: ")).findings[0].id == "H02"


def test_files_of_ranks_are_ordered_by_the_times_in_their_lines() -> None:
    late = "2026-11-21 04:25:59,100 ERROR CUDA error: invalid device ordinal\n"
    early = "2026-11-21 04:25:51,900 ERROR CUDA error: an illegal memory access was encountered\n"
    explanation = explain([scan(late, "rank 0", 0), scan(early, "rank 1", 1)])
    assert explanation.root is not None
    assert explanation.root.rank == 1
    assert explanation.findings[0].id == "illegal"


def test_files_of_ranks_without_times_follow_torchrun() -> None:
    files = [
        scan(torchrun_summary(2, others=[0, 1]), "out.log"),
        scan(traceback("KeyError: 'a'"), "rank 0", 0),
        scan(traceback(GLOO), "rank 1", 1),
        scan(traceback("ZeroDivisionError: division by zero"), "rank 2", 2),
    ]
    assert explain(files).findings[0].title == "Rank 2 failed with ZeroDivisionError at train.py:41 (main)"


def test_a_rank_with_only_a_consequence_gives_way_to_the_rank_with_the_cause() -> None:
    text = traceback(GLOO, "[rank0]: ") + traceback(OOM, "[rank1]: ") + torchrun_summary(0, others=[1])
    assert told(text).findings[0].id == "H02"


def test_a_rank_that_was_killed() -> None:
    text = (
        traceback(GLOO, "[rank0]: ")
        + "E1121 04:25:59.539000 8451 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) "
        + "local_rank: 1 (pid: 8001) of binary: python\n"
        + torchrun_summary(1, "-9", [0])
    )
    finding = told(text).findings[0]
    assert (finding.id, finding.title) == ("H05", "Local rank 1 was killed from outside (SIGKILL)")
    assert any("SIGKILL" in fact.text for fact in finding.evidence)


def test_a_launcher_s_local_rank_is_not_taken_for_a_rank() -> None:
    """On the second node of two with four ranks each, local rank 1 is rank 5."""
    line = "E1121 api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 8001) of binary: python\n"
    explained = told(line + torchrun_summary(5, "-9"))
    assert explained.findings[0].title == "Local rank 1 was killed from outside (SIGKILL)"
    assert explained.root is not None
    assert explained.root.rank is None
    assert any("rank 5 was ended by SIGKILL" in fact.text for fact in explained.findings[0].evidence)


def test_a_silent_rank_is_named_with_how_it_ended() -> None:
    finding = told(traceback(GLOO, "[rank0]: ") + torchrun_summary(1, "-11", [0])).findings[0]
    assert (finding.id, finding.confidence) == ("signal_crash", "likely")
    assert "Rank 1 on node7 was ended by SIGSEGV" in finding.title


@pytest.mark.parametrize(("others", "confidence"), [("", "likely"), (GLOO, "possible")])
def test_a_rank_that_aborted_may_have_followed_others(others: str, confidence: str) -> None:
    finding = told((traceback(others, "[rank0]: ") if others else "") + torchrun_summary(1, "-6", [0])).findings[0]
    assert (finding.id, finding.confidence) == ("G04", confidence)
    assert "Rank 1 on node7 was ended by SIGABRT" in finding.title


def test_consequences_alone_are_labeled_as_such() -> None:
    finding = told(traceback(GLOO)).findings[0]
    assert (finding.id, finding.confidence) == ("G04", "possible")
    assert "only what followed" in finding.cause


WATCHDOG = (
    "[rank{rank}]:[E1121 12:00:0{rank}.1 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={number}, OpType={op}, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before\n"
)


def test_a_watchdog_names_the_rank_that_did_not_come() -> None:
    files = [scan(WATCHDOG.format(rank=rank, number=12, op="ALLREDUCE"), f"rank {rank}", rank) for rank in (0, 1, 3)]
    finding = explain([*files, scan("step 3\n", "rank 2", 2)]).findings[0]
    assert finding.id == "G01"
    assert finding.title.endswith("ALLREDUCE, number 12, after 600000 ms; rank 2 did not come")


@pytest.mark.parametrize(("number", "cause"), [(1, "G02"), (7, "G01")])
def test_a_collective_that_all_ranks_entered_misses_none_of_them(number: int, cause: str) -> None:
    finding = told("".join(WATCHDOG.format(rank=rank, number=number, op="ALLREDUCE") for rank in range(4))).findings[0]
    assert (finding.id, finding.confidence) == (cause, "likely")
    assert finding.title.startswith(f"All 4 ranks of this log entered ALLREDUCE number {number}"), "there may be others"
    assert "none of them is missing" in finding.cause
    assert "did not reach" not in finding.cause


@pytest.mark.parametrize("ranks", [(1, 2, 3), (0, 1, 3), (0,)])
def test_a_collective_that_some_ranks_may_have_missed_is_not_said_to_have_all_of_them(ranks: tuple[int, ...]) -> None:
    finding = told("".join(WATCHDOG.format(rank=rank, number=1, op="ALLREDUCE") for rank in ranks)).findings[0]
    assert finding.id == "G01"
    assert "did not reach ALLREDUCE number 1" in finding.cause


def test_tensors_of_other_sizes_are_other_operations() -> None:
    text = "".join(
        WATCHDOG.format(rank=rank, number=6269, op="ALLREDUCE").replace("NumelIn=1,", f"NumelIn={2 if rank == 3 else 7086080},")
        for rank in range(4)
    )
    finding = told(text).findings[0]
    assert (finding.id, finding.confidence) == ("C08", "likely")
    assert finding.title == "Rank 3 waited in ALLREDUCE number 6269 of 2 elements, others in one of 7 086 080"


def test_ranks_may_send_each_other_parts_of_other_sizes() -> None:
    text = "".join(
        WATCHDOG.format(rank=rank, number=6269, op="ALLTOALL_BASE").replace("NumelIn=1,", f"NumelIn={100 + rank},")
        for rank in range(4)
    )
    assert told(text).findings[0].id == "G01"


def test_watchdogs_in_different_operations_are_a_mismatch() -> None:
    text = WATCHDOG.format(rank=0, number=12, op="ALLREDUCE") + WATCHDOG.format(rank=1, number=11, op="ALLGATHER")
    finding = told(text).findings[0]
    assert finding.id == "C08"
    assert finding.title == "Rank 1 waited in ALLGATHER number 11, others in ALLREDUCE number 12"


def test_a_rank_s_exception_comes_before_the_shell_s_report_of_its_end() -> None:
    """The rank's traceback is still open where the shell's line comes, and was put after it."""
    text = traceback("KeyError: 'x'", "[rank1]: ") + "./run.sh: line 3: 2041 Killed    python train.py\n"
    assert [finding.id for finding in told(text).findings] == ["exception"]


@pytest.mark.parametrize("thrown", ["std::runtime_error", "c10::DistBackendError"])
def test_a_watchdog_that_ends_its_process_is_not_the_cause(thrown: str) -> None:
    text = WATCHDOG.format(rank=1, number=12, op="ALLREDUCE")
    end = f"terminate called after throwing an instance of '{thrown}'\n  what():  {text}Aborted (core dumped)\n"
    assert [finding.id for finding in told(text + end).findings] == ["G01"]
    assert [finding.id for finding in told(end.partition("\n")[0]).findings] == ["cpp_terminate"]


# Tracebacks.


def test_ranks_that_write_between_each_other() -> None:
    one = traceback("KeyError: 'x'", "[rank0]: ").splitlines()
    other = traceback(GLOO, "[rank1]: ").splitlines()
    mixed = [line for pair in zip(one, other, strict=True) for line in pair]
    assert told("\n".join(mixed)).findings[0].title == "Rank 0 failed with KeyError at train.py:41 (main)"


def test_chained_exceptions_are_one_failure() -> None:
    text = (
        traceback("KeyError: 'a'", line=10)
        + ("\nDuring handling of the above exception, another exception occurred:\n\n")
        + traceback("RuntimeError: no sample", line=12)
    )
    explanation = told(text)
    assert explanation.root is not None
    assert (explanation.root.line, explanation.root.raised_from) == ("RuntimeError: no sample", "KeyError: 'a'")
    assert explanation.root.where == "train.py:12 (main)"
    assert "KeyError: 'a'" in explanation.findings[0].cause


HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"
CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"


@pytest.mark.parametrize(
    ("links", "raised", "began"),
    [
        ((HANDLING, CAUSED), "ArrowInvalid: quotation in row 4113", "ValueError: unmatched"),
        ((CAUSED, CAUSED), "ArrowInvalid: quotation in row 4113", "ValueError: unmatched"),
        ((HANDLING, HANDLING), "ValueError: unmatched", None),
        ((CAUSED, HANDLING), "ValueError: unmatched", None),
    ],
)
def test_the_direct_cause_of_a_chain_is_shown_with_the_first_exception(
    links: tuple[str, str], raised: str, began: str | None
) -> None:
    text = traceback("ValueError: unmatched", line=3) + links[0] + traceback("ArrowInvalid: quotation in row 4113", line=5)
    explanation = told(text + links[1] + traceback("GenerationError: no data", line=9))
    (finding,) = explanation.findings
    assert f"It was raised from: {raised}" in finding.cause
    assert (f"It began with: {began}" in finding.cause) == (began is not None)
    assert explanation.root is not None
    assert explanation.root.began_with == began


def test_a_known_text_in_an_inner_exception_is_the_root_of_the_chain() -> None:
    text = (
        traceback("RuntimeError: DataLoader worker (pid 7805) is killed by signal: Killed. ")
        + ("\nThe above exception was the direct cause of the following exception:\n\n")
        + traceback("RuntimeError: DataLoader worker (pid(s) 7805) exited unexpectedly")
    )
    explanation = told(text)
    assert [finding.id for finding in explanation.findings] == ["H05"]
    assert explanation.findings[0].title == "A signal ended DataLoader worker 7805: Killed"


def test_a_message_of_several_lines() -> None:
    text = traceback(
        "RuntimeError: Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "0.weight". \n\tUnexpected key(s) in state_dict: "module.0.weight". '
    )
    finding = told(text).findings[0]
    assert finding.id == "C13"
    assert 'k.removeprefix("module.")' in finding.fix
    assert any("train.py:41" in fact.text for fact in finding.evidence)


REPLICA = (
    "RuntimeError: Caught RuntimeError in replica 1 on device 1.\nOriginal Traceback (most recent call last):\n"
    '  File "/home/ada/model.py", line 9, in forward\n    return x + self.mask\n{inner}\n'
)


def test_a_message_is_quoted_with_its_further_lines() -> None:
    error = "datasets.exceptions.GenerationError: An error occurred\n\nThere is 1 new column\n\n/data/batch_07.jsonl"
    finding = told(traceback(error) + "srun: error: n1: task 0: Exited with exit code 1\n").findings[0]
    assert finding.title.startswith("The script failed with GenerationError at train.py:41")
    assert finding.cause == "datasets.exceptions.GenerationError: An error occurred There is 1 new column /data/batch_07.jsonl."


def test_a_cause_that_an_exception_without_a_traceback_follows_is_not_lost() -> None:
    chained = (
        traceback("ValueError: no such field")
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + "hydra.errors.InstantiationException: Error in call to target 'Trainer':\nsrun: error: n1: task 0: Exited with exit "
        + "code 1\n"
    )
    finding = told(chained).findings[0]
    assert (finding.id, finding.title) == ("exception", "The script failed with ValueError at train.py:41 (main)")


OWN = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.34 GiB. GPU 6 has a total capacity of 79.11 GiB of "
    "which 812.56 MiB is free. Process 771204 has {other} GiB memory in use. Of the allocated memory {own} GiB is allocated by "
    "PyTorch"
)


@pytest.mark.parametrize(("other", "own", "id_"), [("78.30", "70.02", "H02"), ("40.10", "37.00", "H03")])
def test_a_process_that_torch_lists_may_be_the_rank_itself(other: str, own: str, id_: str) -> None:
    assert told(traceback(OWN.format(other=other, own=own))).findings[0].id == id_


@pytest.mark.parametrize(
    "line",
    [
        "guard.py:20: UserWarning: CUDA out of memory while trying batch 512, trying 256",
        "guard.py:48: RuntimeWarning: loss is nan",
        "libibverbs: Warning: couldn't load driver: librdmav34.so: cannot open shared object file: No such file or directory",
    ],
)
def test_a_text_that_ends_runs_is_only_possible_in_a_warning(line: str) -> None:
    assert [finding.confidence for finding in told(f"{line}\nstep 1 loss 2.0\n").findings] == ["possible"]


def test_a_failed_replica_is_certain_only_with_the_inner_error_that_replicas_make() -> None:
    inner = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!"
    finding = told(traceback(REPLICA.format(inner=inner))).findings[0]
    assert (finding.id, finding.confidence) == ("B10", "certain")
    finding = told(traceback(REPLICA.format(inner="IndexError: index 7 is out of range"))).findings[0]
    assert (finding.id, finding.confidence) == ("B10", "likely")
    assert any("IndexError: index 7" in fact.text for fact in finding.evidence)


def test_a_handled_exception_is_not_the_root_if_another_one_ends_the_run() -> None:
    text = traceback("ConnectionError: wandb is offline") + "step 1 loss 0.4\nstep 2 loss 0.3\n" + traceback(OOM)
    assert told(text).findings[0].id == "H02"
    text = traceback("ConnectionError: wandb is offline") + "step 1 loss 0.4\n" * 60 + traceback("TypeError: no")
    assert told(text).findings[0].title.startswith("The script failed with TypeError")


def test_an_exception_that_python_ignores_at_exit_is_not_a_failure() -> None:
    text = "step 9\nException ignored in: <function _Iter.__del__ at 0x7f>\n" + traceback("AttributeError: x")
    assert told(text).findings == ()
    assert told(traceback("KeyboardInterrupt")).findings == ()


def test_source_lines_that_a_traceback_quotes_are_not_the_error() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/home/ada/train.py", line 3, in <module>\n'
        '    raise AssertionError("Torch not compiled with CUDA enabled")\nTypeError: other\n'
    )
    assert told(text).findings[0].title == "The script failed with TypeError at train.py:3 (<module>)"


# Lines as terminals and launchers make them.


def test_escapes_carriage_returns_and_a_progress_bar_before_the_error() -> None:
    text = "\r 10%|#   | 1/10\r 20%|##  | 2/10" + traceback(
        "\x1b[31mRuntimeError\x1b[0m: CUDA error: invalid device ordinal", ""
    )
    assert told(text).findings[0].id == "invalid_ordinal"
    assert told(text.replace("\n", "\r\n")).findings[0].id == "invalid_ordinal"


@pytest.mark.parametrize(
    ("line", "rank", "text"),
    [
        ("[rank3]: Traceback", 3, "Traceback"),
        ("[rank3]:[E1121 x]", 3, "[E1121 x]"),
        ("[default1]:boom", 1, "boom"),
        ("[rank 2] boom", 2, "boom"),
        ("12: boom", 12, "boom"),
        ("[Rank 2] boom", None, "[Rank 2] boom"),
        ("2026-11-21 10:00:00 boom", None, "2026-11-21 10:00:00 boom"),
    ],
)
def test_each_line_is_assigned_to_its_rank(line: str, rank: int | None, text: str) -> None:
    assert rank_and_text(line) == (rank, text)


def test_when_a_line_was_written() -> None:
    iso, glog = time_of("2026-11-21 04:25:59,500 ERROR x"), time_of("[E1121 04:25:59.500000 x.cpp:1] x", WRITTEN)
    assert iso is not None
    assert iso == glog
    assert time_of("[E1121 04:25:59.5 x] x") is None
    assert time_of("step 3") is None
    december = time_of("[E1231 23:59:00 x] x", time_of("2027-01-01 00:10:00"))
    assert december == time_of("2026-12-31 23:59:00")


def test_a_warning_is_shown_but_is_not_the_root() -> None:
    warning = (
        "[W1121 04:26:52.1 socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 "
        "(errno: 98 - Address already in use).\n"
    )
    explanation = told(warning + traceback(OOM))
    assert [finding.id for finding in explanation.findings] == ["H02", "G03"]
    assert [finding.severity for finding in explanation.findings] == ["error", "warning"]


def test_a_harmless_warning_of_torch_raises_no_alarm() -> None:
    steps = "".join(f"epoch {number} loss {2 / number:.3f}\n" for number in range(1, 9))
    many = next(line for name, line, _ in MATCHING if name == "too_many_workers")
    (found,) = told(f"{many}\n{steps}").findings
    assert (found.id, found.severity, found.confidence) == ("D02", "info", "certain")
    pinned = next(line for name, line, _ in MATCHING if name == "pin_no_accel")
    (found,) = told(f"{pinned}\n{steps}").findings
    assert (found.id, found.confidence) == ("A12", "possible"), "the CPU may be meant: Trainer pins memory by default"


def test_remarks_of_a_healthy_run_are_information() -> None:
    omp = next(line for name, line, _ in MATCHING if name == "omp1")
    explanation = told(f"{omp}\nstep 1 loss 0.3\nstep 2 loss 0.2\n")
    assert explanation.root is None
    assert [finding.severity for finding in explanation.findings] == ["info"]


# Large, cut and strange logs.


def test_a_large_log_is_read_in_bounded_memory() -> None:
    found = LogScan("big.log")
    line = b"2026-11-21 04:24:00,123 INFO step 1200 loss=0.4310 lr=1.00e-04\n" * 10_000
    found.feed(line)
    tracemalloc.start()
    for _ in range(30):
        found.feed(line)
    found.feed(traceback(OOM).encode())
    found.end()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * len(line)
    assert found.lines == 31 * 10_000 + 7
    assert explain([found]).findings[0].evidence[0].source == f"big.log:{31 * 10_000 + 7}"


def test_a_text_a_million_times_keeps_the_first_and_the_last() -> None:
    found = scan("step loss: nan\n" * 3000 + traceback(OOM), size=1 << 16)
    assert len(found.observations) <= KEPT_FIRST + KEPT_LAST
    assert found.observations[0].line_number == 1
    assert explain([found]).findings[0].id == "H02"


def test_a_part_that_was_left_out_takes_the_numbers_with_it() -> None:
    found = LogScan("x.log")
    found.feed(b"step 1\n")
    found.skip()
    found.feed(traceback(OOM).encode())
    found.end()
    assert explain([found]).findings[0].evidence[0].source == "x.log"


def test_a_line_without_an_end() -> None:
    found = LogScan("x.log")
    for _ in range(40):
        found.feed(b"." * 10_000)
    found.feed(b" CUDA error: invalid device ordinal")
    found.end()
    assert [item.pattern.id for item in found.observations if item.pattern] == ["invalid_ordinal"]


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 400))
def test_pieces_do_not_matter(size: int) -> None:
    text = traceback(GLOO, "[rank0]: ") + traceback("ValueError: é", "[rank1]: ") + torchrun_summary(1, others=[0])
    assert [f.title for f in explain([scan(text, size=size)]).findings] == [f.title for f in told(text).findings]


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.sampled_from([line for _, line, _ in MATCHING] + [*NOT_MATCHING, *traceback(GLOO).splitlines()]), max_size=30)
)
def test_any_mixture_is_explained_without_an_error(lines: list[str]) -> None:
    explanation = told("\n".join(lines))
    assert all(finding.title and finding.evidence for finding in explanation.findings)


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=600))
def test_any_bytes_are_read(data: bytes) -> None:
    found = LogScan("x")
    found.feed(data)
    found.feed(b"Traceback (most recent call last):\n" + data)
    found.end()
    explain([found])


IN_A_LIBRARY = (
    "Traceback (most recent call last):\n"
    '  File "{path}", line 57, in _is_triton_available\n'
    "    import triton  # noqa\n"
    "    ^^^^^^^^^^^^^\n"
    "ModuleNotFoundError: No module named 'triton'\n"
)


@pytest.mark.parametrize(
    "path", ["/env/lib/python3.11/site-packages/xformers/__init__.py", "C:\\venv\\Lib\\site-packages\\xformers\\__init__.py"]
)
@pytest.mark.parametrize("line", ["Epoche {}: Verlust 0.41, Genauigkeit 0.8\n", "Epoch {} loss 0.41\n"])
def test_an_error_that_a_library_catches_and_prints_ends_no_run(path: str, line: str) -> None:
    """Its only frame is where it was caught; that of an uncaught one begins in the script."""
    after = "".join(line.format(number) for number in range(1, 7))
    assert all(item.confidence == "possible" for item in told(IN_A_LIBRARY.format(path=path) + after).findings)
    last = told(IN_A_LIBRARY.format(path=path)).findings[0]
    assert (last.id, last.confidence) == ("module_missing", "certain")
    assert any("__init__.py:57 (_is_triton_available)" in fact.text and "venv" not in fact.text for fact in last.evidence)


@pytest.mark.parametrize(("xid", "cause"), [(79, "I05"), (48, "I04"), (31, "I04"), (999, "I04")])
def test_a_gpu_that_has_fallen_off_the_bus_is_lost(xid: int, cause: str) -> None:
    line = f"[ 812.1] NVRM: Xid (PCI:0000:3b:00): {xid}, pid='<unknown>', name=<unknown>, what happened.\n"
    assert told(line).findings[0].id == cause


def test_nccl_does_without_a_plug_in() -> None:
    line = "a:7:7 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory"
    assert told(f"{line} No plugin found (libnccl-net.so), using internal implementation\n").findings == ()


@pytest.mark.parametrize("library", ["'libjpeg.so.8", "libtorch_cuda_cu.so"])
def test_torchvision_does_without_its_readers_of_pictures(library: str) -> None:
    error = f"{library}: cannot open shared object file: No such file or directory"
    warns = f"UserWarning: Failed to load image Python extension: {error}'If you don't plan on using image functionality\n"
    assert told(f"/venv/torchvision/io/image.py:13: {warns}").findings == ()
    assert [found.id for found in told(f"ImportError: {error}\n").findings] == ["library_missing"]
