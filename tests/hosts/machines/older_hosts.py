"""Hosts with one Python each, a simulated machine that they watch, and what they tell of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gputop.hosts.feed import HostFeed
from gputop.hosts.transport import Transport, transport_of
from gputop.questions import Answer, Question
from gputop.snapshot import Snapshot
from gputop.wire import encode
from tests import nvml_sim
from tests.hosts.test_traveling import bare
from tests.patience import DEADLINE_S
from tests.real_processes import Processes
from tests.tracking.kit import Home, eventually, home
from tests.untracked.test_curves import write_events

assert home
TRACKED = """
import sys, time
import gputop
run = gputop.init(name="tracked", config={"lr": 0.1})
for step in range(30):
    run.log(step=step, loss=1 / (step + 1), lr=0.1)
    time.sleep(0.01)
print("ready", flush=True)
sys.stdin.read()
"""
LOGS = """
os.chdir({folder!r})
say("ready")
idle()
"""
PRINTS = """
say("ready")
os.dup2(os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
for step in range(30):
    say(f"step {{step}} loss {{1 / (step + 1):.4f}}")
idle()
"""


def reached(folder: Path, python: Path, **environment: str) -> Transport:
    """Return the way to a host whose only Python is this one."""
    programs = bare(folder, f'#!/bin/sh\nexec {shlex.quote(str(python))} "$@"\n')
    given = [f"{name}={value}" for name, value in environment.items()]
    words = shlex.join([str(shutil.which("env")), "-i", f"HOME={folder}", f"PATH={programs}", *given])
    return transport_of(f"{words} TEST_HOST={{host}}")


class Machine:
    """A simulated machine with GPUs, a tracked run, and two runs that gputop did not start."""

    def __init__(self, home: Home, processes: Processes, folder: Path) -> None:
        tracked = home.start(TRACKED)
        assert tracked.stdout is not None
        assert tracked.stdout.readline() == "ready\n"
        for name in ("logs", "prints"):
            (folder / name).mkdir()
        place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
        logs, _ = processes.ready(argv=(processes.script("logs.py", LOGS.format(folder=str(folder / "logs"))),), **place)
        output = str(folder / "prints" / "out.log")
        prints, _ = processes.ready(argv=(processes.script("prints.py", PRINTS.format(path=output)),), **place)
        write_events(folder / "logs", logs.pid)
        self.pids = (tracked.pid, logs.pid, prints.pid)
        scenario = nvml_sim.h100_box(3, pids=self.pids).write(folder / "scenario")
        self.environment = {
            "GPUTOP_DIR": str(home.state),
            **{name: value for name, value in nvml_sim.environment(scenario).items() if os.environ.get(name) != value},
        }

    def part(self, snapshot: Snapshot) -> Mapping[str, Any]:
        """Return what a snapshot tells of this machine. Other processes come and go, and what they print."""
        said = json.loads(snapshot.to_json())
        said["processes"] = [process for process in said["processes"] if process["pid"] in self.pids]
        said["process_runs"] = [run for run in said["process_runs"] if {rank["pid"] for rank in run["ranks"]} & {*self.pids}]
        said["runs"] = [run for run in said["runs"] if {rank["pid"] for rank in run["ranks"]} & {*self.pids}]
        own = {run["run_id"] for run in said["runs"]}
        said["points"] = [points for points in said["points"] if points["run_id"] in own]
        return {name: value for name, value in said.items() if name not in ("notes", "logs")}


@pytest.fixture
def machine(home: Home, tmp_path: Path) -> Iterator[Machine]:
    processes = Processes(tmp_path)
    try:
        yield Machine(home, processes, tmp_path)
    finally:
        processes.end()


def kinds(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """The places of JSON, each with the kinds of its values; what is null is only there."""
    yield place, ""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from kinds(item, f"{place}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from kinds(item, f"{place}[]")
    elif value is not None:
        yield place, "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


class Told:
    """What a host tells of the machine, by kind, and what it answers."""

    def __init__(self, feed: HostFeed, machine: Machine) -> None:
        self.feed, self._machine = feed, machine
        self.kinds: set[tuple[str, str]] = set()
        """Of the newest snapshot."""
        self.answers: list[Answer] = []
        self.last: Snapshot | None = None

    def read(self) -> None:
        for snapshot in self.feed.drain():
            self.last = snapshot
            self.kinds = set(kinds(self._machine.part(snapshot)))
        self.answers += self.feed.take_answers()

    def answer(self, question: Question, whole: Callable[[Any], object]) -> set[tuple[str, str]]:
        """Ask until the answer is whole; return its kinds."""
        self.answers.clear()
        self.feed.ask(question)

        def good() -> Answer | None:
            self.read()
            for answer in self.answers:
                if whole(answer):
                    return answer
            if self.answers:
                self.answers.clear()
                self.feed.ask(question)
            return None

        return set(kinds(json.loads(json.dumps(encode(eventually(good, str(self.feed.problem()), DEADLINE_S))))))
