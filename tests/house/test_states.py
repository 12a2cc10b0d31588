"""The states of runs, ranks, jobs and devices: named once, the same strings in JSON, and open to those of another version."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from gputop import snapshot as records
from gputop.jobs import store
from gputop.snapshot import ENDED_STATES, FAILED_STATES, LIVE_STATES, JobState, LogMatch, RunState, Snapshot
from gputop.tui.drawing import jobs as job_drawing
from gputop.tui.drawing import ranks as rank_drawing
from tests import samples

PACKAGE = Path(records.__file__).parent
NAMED = {"LIVE_STATES": LIVE_STATES, "FAILED_STATES": FAILED_STATES, "ENDED_STATES": ENDED_STATES, "ACTIVE": store.ACTIVE}


def spelled_out(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of every tuple, list and set of texts that is one of the sets with a name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            texts = {item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)}
            for name, states in NAMED.items():
                if len(texts) == len(node.elts) and texts == states:
                    yield node.lineno, name


def test_no_other_module_spells_out_a_set_of_states() -> None:
    sources = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    found = {
        (path, name)
        for path, source in sources.items()
        if any(all(state in source for state in states) for states in NAMED.values())
        for _, name in spelled_out(source)
    }
    assert found == {("snapshot.py", "LIVE_STATES"), ("snapshot.py", "FAILED_STATES"), ("snapshot.py", "ACTIVE")}


@pytest.mark.parametrize(
    "text", ['("running", "starting", "stalled", "unheard")', '{"stalled", "unheard", "starting", "running"}']
)
def test_a_set_that_is_spelled_out_is_found(text: str) -> None:
    assert list(spelled_out(f"x = state in {text}"))


def test_each_state_is_live_or_ended() -> None:
    assert set(get_args(RunState)) == LIVE_STATES | ENDED_STATES
    assert not LIVE_STATES & ENDED_STATES
    assert FAILED_STATES < ENDED_STATES


def test_each_state_has_its_style() -> None:
    assert set(rank_drawing.STATE_STYLES) == set(get_args(RunState))
    assert set(job_drawing.STATE_STYLES) == set(get_args(JobState))


def test_states_of_another_version_are_read_and_written_as_they_are() -> None:
    match = LogMatch("cuda_oom", None, "out of memory", job_state="failed")
    data = json.loads(samples.snapshot(runs=(samples.run(),), logs=(match,)).to_json())
    data["host"]["source"] = "rocm"
    data["devices"][0] |= {"state": "asleep", "kind": "partition"}
    data["runs"][0]["state"] = data["runs"][0]["ranks"][0]["state"] = "migrating"
    data["logs"][0]["job_state"] = "queued"
    read = Snapshot.from_json(json.dumps(data))
    assert (read.host.source, read.devices[0].state, read.devices[0].kind) == ("rocm", "asleep", "partition")
    assert (read.runs[0].state, read.runs[0].ranks[0].state, read.logs[0].job_state) == ("migrating", "migrating", "queued")
    assert json.loads(read.to_json()) == data


def test_a_state_that_is_no_text_is_refused() -> None:
    data = json.loads(samples.snapshot(runs=(samples.run(),)).to_json())
    data["runs"][0]["state"] = 3
    with pytest.raises(records.FormatError):
        Snapshot.from_json(json.dumps(data))
