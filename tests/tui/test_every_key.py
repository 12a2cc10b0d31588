"""Every key that the help lists is pressed in a real terminal: each changes what the screen shows, or says why it does not.

The keys come from the help's own table. Each program is started once for all keys of its screens. The sampler's interval is
long, a recording is paused and the streams of hosts stand still, so that nothing but a key changes the screen.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.errors import GputopError
from gputop.jobs import stopping, store
from gputop.recipes import own_commands
from gputop.recipes.catalogue import Launch
from gputop.recipes.own_commands import OwnCommand
from gputop.sources.recording import Recorder
from gputop.tui.state.keys import KEYS
from tests import nvml_sim, samples
from tests.terminal import KEYS as SENT
from tests.terminal import Terminal
from tests.tracking.kit import Home, eventually, home
from tests.tui.keyboard import WAYS, Keyboard, presses

pytestmark = pytest.mark.long
assert home

GPUTOP = [sys.executable, "-m", "gputop"]
RANK = """
import sys, gputop
with gputop.init(id=sys.argv[1], name=sys.argv[1]) as run:
    for step in range(60):
        wait = 0.01 + 0.02 * int(sys.argv[2])
        run.log({"loss": 3 - step / 30, "step_s": 0.1, "phase/communication": wait, "phase/backward": 0.06}, step=step)
"""
TWO_RANKS = """
import os
directory = os.path.join(os.environ["PET_LOG_DIR"], "x_1", "attempt_0")
for rank in range(2):
    os.makedirs(os.path.join(directory, str(rank)))
    with open(os.path.join(directory, str(rank), "stdout.log"), "w") as file:
        file.writelines(f"rank {rank} at step {step}\\n" for step in range(300))
"""


@pytest.fixture
def workers() -> Iterator[tuple[int, ...]]:
    """Processes that the simulated GPUs show, as many as fill the table."""
    found = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) for _ in range(3)]
    yield tuple(process.pid for process in found)
    for process in found:
        process.kill()
        process.wait()


def test_every_row_of_the_help_belongs_to_a_screen() -> None:
    known = {"everywhere", "everywhere but a run", "every screen but the dashboard", *WAYS}
    assert {place for row in KEYS for place in row.where.split(", ")} == known
    assert all(len(key) == 1 or key in SENT or key.startswith("\x1b") for place in WAYS for key in presses(place))


def test_every_key_of_the_help_does_something(home: Home, tmp_path: Path, workers: tuple[int, ...]) -> None:
    home.any_facts = True
    for name, rank, size in (("first", "0", "1"), ("second", "0", "2"), ("second", "1", "2")):
        assert home.run(RANK, name, rank, RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=size, LOCAL_WORLD_SIZE=size)[0] == 0
    scenario = nvml_sim.h100_box(4, busy=3, pids=workers)
    environment = nvml_sim.environment(scenario.write(tmp_path / "scenario")) | {"GPUTOP_DIR": str(home.state)}
    with Terminal([*GPUTOP, "-i", "10m"], environment) as terminal:
        terminal.wait_for(lambda text: str(workers[0]) in text and "loss" in text)
        keyboard = Keyboard(terminal)
        keyboard.press_all("dashboard", "run", "GPU", "doctor")
        assert keyboard.dead == []
        assert keyboard.leave() == 0


@pytest.fixture
def stopped_at_the_end(home: Home) -> Iterator[None]:
    """Whatever job a test started."""
    yield
    for job in store.list_jobs():
        if job.active:
            with contextlib.suppress(GputopError):
                stopping.stop(job.id, grace_s=2.0)


@pytest.mark.usefixtures("stopped_at_the_end")
def test_every_key_of_the_launch_screen_does_something(home: Home, tmp_path: Path) -> None:
    waits = shlex.join([sys.executable, "-c", "import time; time.sleep(600)"])
    own_commands.remember(OwnCommand("mine", waits, str(tmp_path)))
    store.start(Launch((sys.executable, "-c", TWO_RANKS), {}, "/", "two-ranks"))
    eventually(lambda: not store.list_jobs()[0].active, "the job ends")
    (home.state / "layout.json").write_text(json.dumps({"recipe": "own mine"}))
    environment = nvml_sim.environment(nvml_sim.h100_box(4).write(tmp_path / "scenario"))
    with Terminal([*GPUTOP, "-i", "10m"], environment) as terminal:
        terminal.wait_for("3 Processes")
        keyboard = Keyboard(terminal)
        keyboard.press_all("launch")
        assert keyboard.dead == []
        assert keyboard.leave() == 0


RELAY = '#!/bin/sh\necho gputop-connected\ncat "$(dirname "$0")/$1"\nexec cat > /dev/null\n'
"""Reaches a "host": what it has seen until now, and nothing more."""


def test_every_key_of_the_hosts_screen_does_something(tmp_path: Path) -> None:
    relay = tmp_path / "relay"
    relay.write_text(RELAY)
    relay.chmod(0o755)
    for name in ("a", "b", "c"):
        base = samples.snapshot(time=time.time(), interval_s=3600.0)
        (tmp_path / name).write_text(replace(base, host=replace(base.host, hostname=name)).to_json(compact=True) + "\n")
    via = ["-H", "a,b,c", "--via", f"{shlex.quote(str(relay))} {{host}}"]
    with Terminal([*GPUTOP, *via, "-i", "1h"], {"GPUTOP_DIR": str(tmp_path)}) as terminal:
        terminal.wait_for(lambda text: text.count(" live ") == 3)
        keyboard = Keyboard(terminal, "3 hosts")
        keyboard.press_all("hosts")
        assert keyboard.dead == []
        assert keyboard.leave() == 0


def test_every_key_of_a_replay_does_something(tmp_path: Path) -> None:
    file = tmp_path / "r.ndjson"
    with Recorder(file) as recorder:
        for tick in range(600):
            recorder.write(samples.snapshot(tick).to_json())
    with Terminal([*GPUTOP, "replay", str(file)], {"GPUTOP_DIR": str(tmp_path)}) as terminal:
        terminal.wait_for("3 Processes")
        terminal.press("p")
        terminal.wait_for("paused")
        keyboard = Keyboard(terminal)
        keyboard.press_all("replay")
        assert keyboard.dead == []
        assert keyboard.leave() == 0
