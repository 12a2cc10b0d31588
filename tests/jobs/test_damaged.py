"""A damaged job concerns itself alone: it is named, and all others are listed. Records of real jobs, changed in every way."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gputop.cli.jobs import _job_row, job_record
from gputop.jobs import identity, record, stopping, store
from gputop.jobs.supervisor import Supervisor
from gputop.places import jobs_dir
from gputop.tracking.reader.stopped import job_end
from tests.fuzzing import TIMES, examples
from tests.jobs.test_store import SLEEP, ended, launch, nothing_left, says
from tests.tracking.kit import clean_environment

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="jobs are known by /proc")
assert nothing_left

DEEP = b'{"state": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from((10**400, "\ud800", "ended")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def one_change(data: dict[str, Any], key: str, value: Any) -> bytes:
    changed = copy.deepcopy(data)
    if value is ...:
        changed.pop(key, None)
    else:
        changed[key] = value
    return json.dumps(changed).encode()


def shown() -> tuple[set[str], set[str]]:
    """The ids of the jobs that are listed, and of those that are named as unreadable. Everything listed can be printed."""
    store._ended.clear()
    listing = store.read_jobs()
    for job in listing.jobs:
        json.dumps(job_record(job)).encode()
        " ".join(_job_row(job)).encode()
    for problem in listing.problems:
        str(problem).encode()
    return {job.id for job in listing.jobs}, {str(problem).split()[1] for problem in listing.problems}


def test_one_damaged_record_affects_only_its_own_job(monkeypatch: pytest.MonkeyPatch) -> None:
    good = ended(store.start(launch("pass")))
    odd = good.directory.with_name("odd")
    shutil.copytree(good.directory, odd)
    originals = {name: json.loads((odd / name).read_bytes()) for name in (record.SPEC, record.STATUS, record.SPAWNED)}
    originals[record.SPEC]["id"] = "odd"
    contents = {name: json.dumps(data).encode() for name, data in originals.items()}
    keys = [(name, key) for name, data in originals.items() for key in data]

    @settings(
        max_examples=examples(60), derandomize=TIMES == 1, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.sampled_from(keys), VALUES | st.just(...), st.none() | st.binary(max_size=20) | st.integers(0, 200))
    @example((record.SPEC, "name"), ..., None)
    @example((record.STATUS, "asked"), ..., None)
    @example((record.STATUS, "supervisor"), {"pid": "1", "start_ticks": 1}, None)
    @example((record.STATUS, "state"), "", DEEP)
    @example((record.SPEC, "name"), "", DEEP)
    @example((record.SPEC, "name"), "", b"")
    @example((record.SPEC, "name"), "", b"\xff\xfe\x00")
    def check(place: tuple[str, str], value: Any, raw: bytes | int | None) -> None:
        name, key = place
        for other, content in contents.items():
            (odd / other).write_bytes(content)
        changed = one_change(originals[name], key, value)
        (odd / name).write_bytes(raw if isinstance(raw, bytes) else changed[:raw] if raw else changed)
        listed, named = shown()
        assert good.id in listed
        assert ("odd" in listed) != ("odd" in named)
        job_end("odd")
        record.has_ended(odd)

    check()
    (odd / record.STATUS).write_bytes(b'{"state": "ended"}')
    (odd / record.SPEC).write_bytes(contents[record.SPEC])
    store._ended.clear()
    assert store.find("odd").state == "lost", "its exit code is not known"


@pytest.mark.parametrize("name", [record.SPEC, record.STATUS])
def test_another_kind_of_file_in_place_of_a_record(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    good = ended(store.start(launch("pass")))
    spec = record.read_json(good.directory / record.SPEC)
    assert spec is not None
    kinds = {"folder": os.mkdir, "fifo": os.mkfifo, "link": lambda path: os.symlink("/etc/passwd", path)}
    for kind, make in kinds.items():
        directory = good.directory.with_name(kind)
        shutil.copytree(good.directory, directory)
        record.write_json(directory / record.SPEC, {**spec, "id": kind})
        (directory / name).unlink()
        make(directory / name)
    listed, named = shown()
    assert good.id in listed
    assert named == set(kinds)
    environment = clean_environment(jobs_dir().parent)
    run = [sys.executable, "-m", "gputop", "jobs"]
    done = subprocess.run(run, capture_output=True, text=True, env=environment, timeout=180, check=False)
    assert done.returncode == 0
    assert good.id in done.stdout
    assert all(f"Job {kind} cannot be read: {name}" in done.stderr for kind in kinds)
    assert "Traceback" not in done.stderr


def test_a_supervisor_survives_what_others_wrote(tmp_path: Path) -> None:
    other = ended(store.start(launch("pass")))
    (other.directory / record.STATUS).write_bytes(b'{"state": "running", "supervisor": 3, "child": [4]}')
    behind = store.start(launch(SLEEP), after=[other.id])
    says(behind, "up")
    for grace in (b"[]", b'{"grace_s": "soon"}', b'{"grace_s": NaN}', b'{"grace_s": -1}', DEEP):
        (behind.directory / record.STOP).write_bytes(grace)
        supervisor = Supervisor(behind.directory, {"id": behind.id})
        assert supervisor.grace_s() == 10.0
    assert stopping.stop(behind.id).state == "stopped"
    assert identity.marked(behind.id) == []
