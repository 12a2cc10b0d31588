"""Tracebacks that a logger, a launcher or a container runtime prints with words before each line."""

from __future__ import annotations

import json

import pytest

from gputop.doctor.logs.explain import explain
from tests.doctor.test_logs import scan

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
def test_a_traceback_is_read_behind_words_that_stand_before_each_line(name: str) -> None:
    lines = ["training begins", *(PREFIXES[name].format(n=n) + line for n, line in enumerate(TRACEBACK)), "bye"]
    (finding,) = explain([scan("\n".join(lines))]).findings
    assert finding.id == "exception"
    assert "failed with ValueError at serve.py:21 (start)" in finding.title
    assert "there is no room for the cache" in finding.cause


def test_a_line_without_the_words_ends_the_traceback() -> None:
    before = PREFIXES["vLLM"]
    lines = [before.format(n=n) + line for n, line in enumerate(TRACEBACK[:-1])]
    (found,) = explain([scan("\n".join([*lines, "step 4 loss 2.1", "KeyError: 'x'"]))]).findings
    assert (found.title, found.confidence) == ("The script failed with KeyError", "likely"), "as the last line, without a place"


def test_lines_of_another_process_between_them_do_not_disturb() -> None:
    first, other = "(Worker pid=11) ", "(Worker pid=12) "
    lines = [line for text in TRACEBACK for line in (first + text, other + "loading shard 3")]
    (finding,) = explain([scan("\n".join(lines))]).findings
    assert "ValueError at serve.py:21 (start)" in finding.title


def test_a_known_text_is_known_behind_them() -> None:
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


def test_what_only_looks_like_json_or_a_box_is_a_line() -> None:
    for line in ("{Traceback (most recent call last)", "[" * 5000 + "Traceback (most recent call last)", "│ a table │", "╭─╮"):
        assert scan(f"{line}\n").observations == []
