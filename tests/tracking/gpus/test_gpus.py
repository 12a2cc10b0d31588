"""The readings of a run's GPUs outlive it: real trainings on a simulated driver, and the real agent that reads them again."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from gputop.cli.stored.prune import prune
from gputop.run_questions import GpusAnswer
from gputop.snapshot import Snapshot
from gputop.tracking.gpus import record
from gputop.tracking.gpus.record import Reading
from tests import nvml_sim
from tests.agent.test_sampler import Agent
from tests.tracking.kit import DEADLINE_S, Home, home

assert home

TRAINING = """
import sys, time
from pathlib import Path
import gputop
from gputop.tracking.journal.worker import _workers
uuid = sys.argv[1]
run = gputop.init(id="kept")
run.fact("devices", [{"name": "cuda:0", "uuid": uuid, "virtual_index": None, "thread_id": None, "memory_bytes": None}])
place = Path(run.dir)
until = time.monotonic() + float(sys.argv[2])
step = 0
while time.monotonic() < until and not list(place.glob("*.gpu")):
    run.log(loss=1.0, step=step)
    step += 1
    time.sleep(0.02)
run.finish()
until = time.monotonic() + 3  # less than the thread sleeps between two readings
(worker,) = [worker for worker in _workers if "gpus" in worker._work.__module__]
while worker._thread is not None and worker._thread.is_alive():
    assert time.monotonic() < until, "exit handlers run beside the driver's library"
    time.sleep(0.01)
print(sorted(path.name for path in place.iterdir() if path.suffix != ".kept"))
"""


def answer_of(agent: Agent, run_id: str) -> GpusAnswer:
    agent.send(gpus={"run_ids": [run_id]})
    for _ in range(1000):
        line = agent.process.stdout.readline()
        if GpusAnswer.is_in(line):
            return GpusAnswer.from_json(line)
        Snapshot.from_json(line)
    raise AssertionError("no answer came")


def test_a_training_that_nobody_watches_records_its_gpu(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = nvml_sim.h100_box(2)
    simulated = nvml_sim.environment(scenario.write(tmp_path / "scenario"))
    driver = {name: simulated[name] for name in ("LD_LIBRARY_PATH", "GPUTOP_NVML_SIM_SCENARIO")}
    uuid = scenario.uuid(1)
    code, out, err = home.run(
        TRAINING,
        uuid,
        str(DEADLINE_S),
        **driver,
    )
    assert (code, err) == (0, "")
    assert out == f"{[f'{uuid}.gpu', 'rank-00000.gpr']}\n"
    (found,) = record.read(home.runs / "kept").values()
    assert found[0].number == 1
    assert None not in found[0]
    assert abs(found[0].time - time.time()) < DEADLINE_S + 60
    monkeypatch.setenv("GPUTOP_DIR", str(home.state))
    with Agent("-i", "100ms", "--virtual", "1") as agent:
        answer = answer_of(agent, "kept")
        assert [(past.run_id, past.uuid, past.index) for past in answer.gpus] == [("kept", uuid, 1)]
        assert answer.gpus[0].power_w[0] == found[0].power_w
        assert answer_of(agent, "no such run").gpus == ()
    prune(None, 0, yes=True)
    assert not (home.runs / "kept").exists()


def test_the_agent_records_what_a_training_cannot_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP_DIR", str(home.state))
    script = TRAINING.replace('"uuid": uuid, "virtual_index": None', '"uuid": None, "virtual_index": 0')
    with Agent("-i", "100ms", "--virtual", "1") as agent:
        device = Snapshot.from_json(agent.process.stdout.readline()).devices[0]
        training = home.start(script, "-", str(DEADLINE_S))
        while training.poll() is None:
            Snapshot.from_json(agent.process.stdout.readline())
        (past,) = answer_of(agent, "kept").gpus
    assert (past.uuid, past.index) == (device.uuid, 0)
    assert past.is_whole
    assert past.memory_used_bytes[0] is not None
    assert past.power_w == (None,) * len(past.times)


def test_writers_take_turns_and_write_ever_less(tmp_path: Path) -> None:
    began = time.time() - 10
    reading = Reading("GPU-1", 0, float(int(time.time())), 50.0, 1 << 30, None)
    assert record.add(tmp_path, reading, began)
    assert not record.add(tmp_path, reading, began)
    path = tmp_path / "GPU-1.gpu"
    os.utime(path, (time.time() - 6,) * 2)
    assert record.add(tmp_path, reading, began)
    os.utime(path, (time.time() - 6,) * 2)
    assert not record.add(tmp_path, reading, time.time() - 86_400)
    assert path.stat().st_mode & 0o777 == 0o600
    assert record.read(tmp_path) == {"GPU-1": [reading, reading]}


def test_an_unmeasured_gpu_takes_no_line(tmp_path: Path) -> None:
    assert not record.add(tmp_path, Reading("GPU-1", 0, 1.0), 0.0)
    assert record.read(tmp_path) == {}


@pytest.mark.parametrize("uuid", ["../out", "", "a/b", "x" * 300, ".hidden"])
def test_no_name_leaves_the_directory(tmp_path: Path, uuid: str) -> None:
    directory = tmp_path / "runs" / "a"
    directory.mkdir(parents=True)
    assert not record.add(directory, Reading(uuid, 0, 1.0, 1.0, 1, 1.0), 0.0)
    assert list(directory.parent.rglob("*")) == [directory]


def test_damage_costs_a_line_and_links_are_left_alone(tmp_path: Path) -> None:
    lines = [[1.0, 0, 50, 9, 300], "cut", [2.0], [float("nan"), 0, 1, 1, 1], [3.0, 0, None, "x", True], [4.0, 0, 1e400, 1, 2]]
    (tmp_path / "GPU-1.gpu").write_text("[1, 2\n" + "".join(json.dumps(line) + "\n" for line in lines) + "[[[[\n\xff")
    (tmp_path / "GPU-2.gpu").symlink_to(tmp_path / "GPU-1.gpu")
    os.mkfifo(tmp_path / "GPU-3.gpu")
    found = record.read(tmp_path)
    assert list(found) == ["GPU-1"]
    assert found["GPU-1"] == [
        Reading("GPU-1", 0, 1.0, 50.0, 9, 300.0),
        Reading("GPU-1", 0, 3.0, None, None, None),
        Reading("GPU-1", 0, 4.0, None, 1, 2.0),
    ]
    for name in ("GPU-2", "GPU-3"):
        assert not record.add(tmp_path, Reading(name, 0, 1.0, 1.0, 1, 1.0), 0.0)
