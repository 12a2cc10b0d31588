"""Tracebacks that a logger, a launcher or a container runtime prints with words before each line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.scan import LogScan
from tests.doctor.logs.test_logs import scan

TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/srv/venv/lib/python3.10/site-packages/vllm/worker.py", line 180, in init_device',
    "    raise ValueError(",
    '  File "/home/ada/serve.py", line 21, in start',
    "    engine.run()",
    "ValueError: there is no room for the cache",
)
PREFIXES = {
    "vLLM": "(EngineCore_DP0 pid=17374) ERROR 09-28 15:47:{n:02d} [core.py:718] ",
    "Ray": "(RayTrainWorker pid=3122, ip=10.2.0.8) ",
    "docker compose": "trainer-1  | ",
    "a cluster's log": "2026-03-11T17:57:10.97{n}518836Z ",
    "pdsh": "node1: ",
    "pdsh and torchrun": "node1: [rank8]: ",
    "logging": "2026-03-11 17:57:10,{n:03d} ERROR root: ",
}


@pytest.mark.parametrize("name", PREFIXES)
def test_a_traceback_is_read_behind_a_prefix_on_each_line(name: str) -> None:
    lines = ["training begins", *(PREFIXES[name].format(n=n) + line for n, line in enumerate(TRACEBACK)), "bye"]
    (finding,) = explain([scan("\n".join(lines))]).findings
    assert finding.id == "exception"
    assert "failed with ValueError at serve.py:21 (start)" in finding.title
    assert "there is no room for the cache" in finding.cause


RANKED = {
    "srun": "3: ",
    "srun, padded": " 3: ",
    "torchrun and torch": "[default1]:[rank3]: ",
    "Open MPI": "[1,3]<stderr>:",
    "PRRTE": "[prterun-gpu03-1234@1,3]<stderr>: ",
    "SageMaker": "[1,mpirank:3,algo-1]<stderr>:",
    "a rank and a time": "[rank3][2026-03-11 17:57:10,{n:03d}] ",
    "a time and srun": "[2026-03-11T17:57:10.{n}] 3: ",
    "srun and NeMo": "3: [NeMo E 2026-03-11 17:57:{n:02d} train:60] ",
    "logging": "2026-03-11 17:57:10,{n:03d} [ERROR] [rank 3] train: ",
    "a word": "[Rank 3] ",
    "a container's runtime and torch": "2026-03-11T17:57:10.97{n}518836Z stderr F [rank3]: ",
    "kubectl and torch": "[pod/trainer-worker-1/pytorch] [rank3]: ",
}


@pytest.mark.parametrize("name", RANKED)
def test_a_rank_is_read_before_a_traceback(name: str) -> None:
    lines = [RANKED[name].format(n=n) + line for n, line in enumerate(TRACEBACK)]
    (finding,) = explain([scan("\n".join(lines))]).findings
    assert finding.title == "Rank 3 failed with ValueError at serve.py:21 (start)"


def test_ranks_with_the_same_prefix_are_kept_apart() -> None:
    other = [line.replace("ValueError", "KeyError") for line in TRACEBACK]
    lines = [f"{rank}: [main] {text}" for pair in zip(TRACEBACK, other, strict=True) for rank, text in enumerate(pair)]
    seen = scan("\n".join(lines)).observations
    assert [(item.rank, item.line.partition(":")[0]) for item in seen] == [(0, "ValueError"), (1, "KeyError")]


def test_a_line_without_the_prefix_ends_the_traceback() -> None:
    before = PREFIXES["vLLM"]
    lines = [before.format(n=n) + line for n, line in enumerate(TRACEBACK[:-1])]
    (found,) = explain([scan("\n".join([*lines, "step 4 loss 2.1", "KeyError: 'x'"]))]).findings
    assert (found.title, found.confidence) == ("The script failed with KeyError", "likely"), "as the last line, without a place"


def test_lines_of_another_process_between_them_do_not_disturb() -> None:
    first, other = "(Worker pid=11) ", "(Worker pid=12) "
    lines = [line for text in TRACEBACK for line in (first + text, other + "loading shard 3")]
    (finding,) = explain([scan("\n".join(lines))]).findings
    assert "ValueError at serve.py:21 (start)" in finding.title


def test_a_known_text_is_found_behind_a_prefix() -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of"
    lines = [PREFIXES["Ray"].format(n=n) + line for n, line in enumerate((*TRACEBACK[:-1], error))]
    (finding,) = explain([scan("\n".join(lines))]).findings
    assert (finding.id, finding.evidence[1].text) == ("H02", "at serve.py:21 (start)")


BOX = """\
step 1 loss 2.0
{lead}╭─────────────────────── Traceback (most recent call last) ────────────────────────╮
{lead}│ /home/u/train.py:212 in <module>                                                 │
{lead}│   211                                                                            │
{lead}│ ❱ 212     main(cfg)                                                              │
{lead}╰──────────────────────────────────────────────────────────────────────────────────╯
{lead}ShardError: shard 17 is empty
"""
PLAIN = 'Traceback (most recent call last):\n  File "/home/u/train.py", line 212, in <module>\n    main()\n'
DEEP = '  File "/opt/lib/python3.11/site-packages/torch/nn/module.py", line 15, in call\n    return self.call(*args)\n' * 60


def test_the_box_that_rich_draws_around_a_traceback_is_read() -> None:
    for lead, rank in (("", None), ("[rank3]: ", 3)):
        (seen,) = scan(BOX.format(lead=lead)).observations
        assert (seen.line, seen.where, seen.rank) == ("ShardError: shard 17 is empty", "train.py:212 (<module>)", rank)


def test_a_traceback_within_a_json_object_is_read() -> None:
    for deep in ("", DEEP):
        record = {"level": "ERROR", "rank": 3, "message": "failed", "exc_info": f"{PLAIN}{deep}ShardError: shard 17 is empty"}
        (seen,) = scan(f"{json.dumps({'message': 'step 1'})}\n{json.dumps(record)}\n").observations
        assert (seen.line, seen.rank, seen.line_number) == ("ShardError: shard 17 is empty", 3, 2)
        assert seen.where == "train.py:212 (<module>)"


def test_a_line_that_only_resembles_json_or_a_box_stays_a_line() -> None:
    for line in ("{Traceback (most recent call last)", "[" * 5000 + "Traceback (most recent call last)", "│ a table │", "╭─╮"):
        assert scan(f"{line}\n").observations == []


@pytest.mark.parametrize(
    "record",
    [
        lambda line: {"log": f"{line}\n", "stream": "stderr", "time": "2026-03-11T17:57:10.9Z"},
        lambda line: {"severity": "ERROR", "message": line, "labels": {"rank": 3}},
        lambda line: {"log": json.dumps({"level": "error", "msg": line}), "stream": "stderr"},
    ],
    ids=["docker", "a logger", "a logger in docker"],
)
def test_a_traceback_of_one_object_for_each_line_is_read(record: Callable[[str], dict[str, object]]) -> None:
    (finding,) = explain([scan("\n".join(json.dumps(record(line)) for line in TRACEBACK))]).findings
    assert "failed with ValueError at serve.py:21 (start)" in finding.title
    assert ("Rank 3" in finding.title) == ("labels" in record(""))


def test_a_traceback_deep_in_a_json_object_is_read() -> None:
    record = {"level": "error", "msg": "the run failed", "error": {"stack": "\n".join(TRACEBACK)}}
    (finding,) = explain([scan(f"2026-03-11T17:57:10.9Z {json.dumps(record)}\n")]).findings
    assert finding.title == "The script failed with ValueError at serve.py:21 (start)"


def test_an_error_in_json_is_the_last_word_and_a_warning_is_not() -> None:
    told = {
        level: explain([scan(json.dumps({"level": level, "msg": "Error: no shard is left to read"}))]).findings
        for level in ("error", "warning", "info")
    }
    assert [finding.title for finding in told["error"]] == [
        "The log ends with an error: ERROR: Error: no shard is left to read"
    ]
    assert told["warning"] == ()


def test_the_other_fields_of_an_object_still_count() -> None:
    (seen,) = scan(json.dumps({"message": "step 7", "loss": "nan", "note": "loss is nan"}) + "\n").observations
    assert seen.pattern is not None
    assert seen.pattern.id == "nan_loss"


def test_a_negative_rank_is_ignored() -> None:
    """Launchers set the rank to -1 where no process group is."""
    for record in (
        {"message": "\n".join(TRACEBACK), "rank": -1},
        {"level": "error", "message": "\n".join(TRACEBACK), "global_rank": -1},
    ):
        (finding,) = explain([scan(f"{json.dumps(record)}\n")]).findings
        assert finding.title == "The script failed with ValueError at serve.py:21 (start)"
    for lead in ("[rank-1]: ", "[rank=-1] ", "rank -1 | "):
        (finding,) = explain([scan("\n".join(lead + line for line in TRACEBACK))]).findings
        assert finding.title == "The script failed with ValueError at serve.py:21 (start)"


def test_a_rank_of_thousands_of_digits_is_plain_text() -> None:
    for lead in (f"[rank{'9' * 5000}]: ", f"[rank {'9' * 5000}] ", f"[1,{'9' * 5000}]<stderr>:"):
        log = LogScan("train.log")
        log.feed(b"RuntimeError: CUDA error: invalid device ordinal\n" + b"more words\n" * 300)
        log.feed(f"{lead}x\n".encode())
        log.end()
        assert log.ranks == set()


def test_an_empty_line_after_a_prefix_is_not_the_script_s_own() -> None:
    lines = [*TRACEBACK, "", "", "", "", "", ""]
    log = scan("\n".join(f"trainer-1  | {line}" for line in lines))
    assert log.tail.plain == 0
    (seen,) = log.observations
    assert seen.line == TRACEBACK[-1]
