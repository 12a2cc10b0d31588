"""Of logs of several ranks, the first cause in time is quoted, with its rank, the line of the script, and what to do.

The logs in the folder ``ranks`` are as launchers write them: ``--tee``, ``--label``, tags, pods, hosts, a file for each rank.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.scan import LogScan

RANKS = Path(__file__).parent / "ranks"


class Case(NamedTuple):
    """What the finding should be: its id, what a fact begins with (and the rank, if known), the line, and part of the fix."""

    logs: tuple[str, ...]
    name: str
    said: str
    at: str
    fix: str


CASES = (
    Case(("tee-gloo",), "exception", "rank 2 said: KeyError: 'I-MISC'", "data.py:31 (encode)", "data.py:31"),
    Case(("slurm-label-oom",), "H02", "rank 5 said: torch.OutOfMemoryError", "main.py:140 (train)", "expandable_segments"),
    Case(("mpi-tagged",), "exception", "rank 3 said: FileNotFoundError", "train.py:61 (<module>)", "train.py:61"),
    Case(("assert-then-watchdog",), "exception", "rank 1 said: AssertionError", "learn.py:212 (update)", "learn.py:212"),
    Case(("summary-names-rank-3",), "exception", "rank 3 said: RuntimeError: shape", "train.py:41 (step)", "train.py:41"),
    Case(("kubernetes-two-pods",), "disk_full", "rank 1 said: OSError: [Errno 28]", "loop.py:77 (save)", "df -h"),
    Case(("pdsh-two-hosts",), "hub_offline", "OSError: We couldn't connect", "ft.py:33 (<module>)", "hf download"),
    Case(("device-assert-on-rank-2",), "illegal", "the same on rank 2", "lit.py:40 (training_step)", "CUDA_LAUNCH_BLOCKING=1"),
    Case(
        ("spawned-process-2",), "optimizer_groups", "ValueError: loaded state dict", "dist.py:120 (worker)", "load_state_dict"
    ),
    Case(("train-0", "train-1"), "exception", "json.decoder.JSONDecodeError", "train.py:64 (main)", "train-1.log"),
)


@pytest.mark.parametrize("size", [1 << 20, 61])
@pytest.mark.parametrize("case", CASES, ids=[case.logs[0] for case in CASES])
def test_the_first_cause_is_told(case: Case, size: int) -> None:
    scans = []
    for number, name in enumerate(case.logs):
        # The log of the rank that failed first ends first.
        scan, data = LogScan(f"{name}.log", written_at=1000.0 - number), (RANKS / f"{name}.log").read_bytes()
        for begin in range(0, len(data), size):
            scan.feed(data[begin : begin + size])
        scan.end()
        scans.append(scan)
    (first, *others) = explain(scans).findings
    facts = [fact.text for fact in first.evidence]
    assert first.id == case.name
    assert any(fact.startswith(case.said) for fact in facts), facts
    assert any(fact.startswith(f"at {case.at}") for fact in facts), facts
    assert case.fix in first.fix
    assert all(other.confidence == "possible" or other.severity != "error" for other in others)
