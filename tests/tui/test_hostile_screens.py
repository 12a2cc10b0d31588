"""No screen lets a name steer the terminal: hostile texts of every origin, every screen, on a real terminal.

Of the bytes that arrive, everything but gputop's own sequences must be printable text, and every row must keep its width.
``tests/cli/output/test_terminal.py`` does the same for the commands.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputop.jobs import record
from gputop.places import jobs_dir
from gputop.recipes import own_commands
from gputop.recipes.own_commands import OwnCommand
from gputop.snapshot import LogMatch, Problem
from tests import nvml_sim, samples
from tests.terminal import Terminal
from tests.tracking.kit import Home, home

pytestmark = pytest.mark.long
assert home

GPUTOP = [sys.executable, "-m", "gputop"]
CONTROLS = (
    "\x1b]0;title\x07\x1b[5i\x1b[3;9r\x1bPq\x1b\\\x1b_x\x1b\\\x9b31m\x9d8;;http://x\x9c"
    "\x0e\x08\x08\x08\x08\x7f\r\n9. FORGED\x85\u2028"
)
MARKS = "\u202etxt\u2066\u200f\u061c"
WIDE = "漢字👩‍👩‍👧❤️e\u0301\u0301\u0301각\u200b\ufeff"
EVIL = f"evil{CONTROLS}{MARKS}{WIDE}end"
LONG = EVIL + "x" * 3000 + EVIL
JOB = "20261122-141300-3f2a"
OWN = re.compile(
    rb"\x1b\[[\d;:]*m"  # colors
    rb"|\x1b\[\d*(?:;\d*)?[A-DHJKX]|\x1b[DM]|\x08{1,3}"  # where to write, and what to erase
    rb"|\x1b\[\?[\d;]+(?:\$p|[hl])"  # modes: the mouse, the cursor, a whole frame at once
    rb"|\x1b\[(?:\?|>|<)?[\d;]*[ucntq]"  # keys, and questions to the terminal
    rb"|\x1b\[\?[\d;]*\$?[pu]"
    rb"|\x1b\]22;[a-z-]*\x07"  # the shape of the pointer
    rb"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"  # what is copied
)
BORDERS = "│┃╮╯╭╰┤┐┘─┬┴┼├┌└ "


def check(terminal: Terminal, place: str) -> None:
    """Check everything that the terminal has received so far, and the widths of the rows that it shows."""
    rest = OWN.sub(b"", terminal.received).decode("utf-8", "replace")
    raw = [ascii(char) for char in rest if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    at = next((number for number, char in enumerate(rest) if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")), 0)
    assert not raw, (place, set(raw), ascii(rest[max(0, at - 60) : at + 60]))
    for row in terminal.cells():
        first, last = str(row[0][0]), str(row[-1][0])
        assert first not in "│╭╰" or last in BORDERS, (place, "".join(str(cell[0]) for cell in row))


FREE = ("name", "hostname", "user", "project", "driver_version", "message", "hint", "line", "file", "cause", "model", "recipe")
LISTS = ("command", "tags")


def hostile(value: Any, key: str = "") -> Any:
    """Return a record's JSON form with every free text replaced."""
    if isinstance(value, dict):
        return {name: hostile(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [f"{item} {EVIL}" if key in LISTS else hostile(item, key) for item in value]
    return f"{value} {LONG if key == 'message' else EVIL}" if key in FREE and isinstance(value, str) else value


def hostile_line(tick: int, host: str | None = None) -> bytes:
    base = samples.ranks_on_one_gpu(tick)
    started, *others = base.runs[0].ranks
    ranks = (replace(started, metrics={**started.metrics, EVIL: 2.0}, facts={**started.facts, EVIL: EVIL}), *others)
    own = {"config": {EVIL: EVIL, "lr": 0.1}, "project": "p", "tags": ("tag",), "ranks": ranks, "job_id": JOB}
    shot = replace(
        base,
        runs=(replace(base.runs[0], **own), *base.runs[1:]),
        points=(*base.points, *(replace(points, metric=EVIL) for points in base.points[:1])),
        notes=(Problem("disk", "message", "hint"),),
        logs=(LogMatch("cuda_oom", "cause", "torch.OutOfMemoryError: CUDA out of memory.", "run-1", JOB, 0, "out.log", 3),),
    )
    if host is not None:
        shot = replace(shot, time=time.time(), interval_s=3600.0, host=replace(shot.host, hostname=host))
    return json.dumps(hostile(json.loads(shot.to_json()))).encode() + b"\n"


def walk(terminal: Terminal, base: str, *ways: tuple[str, ...]) -> None:
    """Press each sequence of keys from the first screen, check what the terminal has received, and go back."""
    shows = set()
    for way in ways:
        for key in way:
            terminal.press(key)
            text = terminal.wait_until_still()
            check(terminal, " ".join(way))
            if "evil" in text:
                shows.add(text.splitlines()[0].partition("›")[2][:8])
        terminal.press("escape")
        while "›" in terminal.lines()[0] or base not in terminal.text():
            terminal.press("escape")
            terminal.wait_until_still()
    assert len(shows) > 2, shows
    terminal.press("escape", "q")
    terminal.wait_for(lambda text: terminal.process.poll() is not None)
    check(terminal, "the exit")


HERE = (("down", "enter"), ("3", "enter", "down", "e"), ("1", "enter", "end"), ("d", "enter", "end"), ("?",), (":", "e", "v"))
MORE = (
    ("o", "down", "enter", "space"),
    ("o", "/", "e"),
    ("o", "c"),
    ("k",),
    ("y",),
    ("w",),
    ("P",),
    ("f2",),
    ("/", "e", "v", "enter"),
)


def test_a_hostile_recording_steers_no_screen(tmp_path: Path) -> None:
    path = tmp_path / f"recording{CONTROLS.replace('/', '')}"
    path.write_bytes(b"".join(map(hostile_line, range(30))))
    with Terminal([*GPUTOP, "replay", str(path)], {"GPUTOP_DIR": str(tmp_path)}) as terminal:
        terminal.wait_for("3 Processes")
        walk(terminal, "3 Processes", ("p",), *HERE, *MORE)


RELAY = '#!/bin/sh\necho gputop-connected\ncat "$(dirname "$0")/$1"\nexec cat > /dev/null\n'
"""Reaches a "host": what it has seen until now, and nothing more."""


def test_hostile_hosts_steer_no_screen(tmp_path: Path) -> None:
    relay = tmp_path / "relay"
    relay.write_text(RELAY)
    relay.chmod(0o755)
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(hostile_line(0, name))
    via = ["-H", "a,b", "--via", f"{shlex.quote(str(relay))} {{host}}"]
    with Terminal([*GPUTOP, *via, "-i", "1h"], {"GPUTOP_DIR": str(tmp_path)}) as terminal:
        terminal.wait_for(lambda text: text.count(" live ") == 2)
        walk(terminal, "2 hosts", ("enter", "d", "enter"), ("enter", "o"), ("d", "enter"), ("/", "e"), ("o", "enter"))


WORKER = """
import ctypes, os, sys, time, json
name, uid = json.loads(sys.argv[1]), int(sys.argv[2])
ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
if uid:
    os.setuid(uid)
time.sleep(600)
"""
TRAINING = """
import json, sys, time, gputop
evil = json.loads(sys.argv[1])
run = gputop.init(name=evil, project=evil, config={evil: evil, "lr": 0.1}, tags=[evil], notes=evil)
for step in range(40):
    run.log({"loss": 1.0 / (step + 1), evil: float(step)}, step=step)
run.text(evil)
run.alert(evil, evil)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def busy(home: Home) -> Iterator[tuple[int, ...]]:
    """A live run and two processes, one of another user where this is root, all with hostile names."""
    environment = {**os.environ, "GPUTOP_DIR": str(home.state), f"E{MARKS}": EVIL, "CUDA_VISIBLE_DEVICES": f"0,{EVIL}"}
    name, other = json.dumps(EVIL), "65534" if os.geteuid() == 0 else "0"
    training = subprocess.Popen([sys.executable, "-c", TRAINING, name, EVIL], env=environment, stdout=subprocess.PIPE)
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, name, uid, LONG], env=environment) for uid in ("0", other)]
    assert training.stdout is not None
    assert training.stdout.readline() == b"ready\n"
    yield (training.pid, *(worker.pid for worker in workers))
    for process in (training, *workers):
        process.kill()
        process.wait()
    training.stdout.close()


def test_hostile_processes_runs_and_jobs_steer_no_screen(home: Home, tmp_path: Path, busy: tuple[int, ...]) -> None:
    home.any_facts = True
    directory = jobs_dir() / JOB
    directory.mkdir(parents=True)
    spec = {"id": JOB, "name": EVIL, "argv": ["python", EVIL], "device_uuids": [EVIL], "values": {"epochs": EVIL}}
    record.write_json(directory / record.SPEC, {**spec, "recipe_id": EVIL, "hostname": socket.gethostname(), "created_at": 1.0})
    ended = {"state": "ended", "exit_code": 1, "signal": None, "asked": [], "began_at": 1.0, "ended_at": 2.0, "problem": EVIL}
    record.write_json(directory / record.STATUS, ended)
    (directory / record.OUT_LOG).write_text(f"{EVIL}\n{LONG}\nRuntimeError: CUDA error: {EVIL}\n" * 40)
    own_commands.remember(OwnCommand(EVIL, f"python {shlex.quote(EVIL)}", "/", {"E": EVIL}))
    scenario = nvml_sim.h100_box(3, busy=3, pids=busy)
    for index in scenario.names:
        scenario.names[index] = re.sub("[\r\n\x85\u2028]", "", EVIL)
    environment = nvml_sim.environment(scenario.write(tmp_path / "scenario")) | {"GPUTOP_DIR": str(home.state)}
    launch = (
        ("l", "2", "end"),
        ("l", "3", "home", "down", "up"),
        ("l", "4", "home", "/", "e", "enter"),
        ("l", "n"),
        ("l", "3", "x"),
    )
    with Terminal([*GPUTOP, "-i", "10m"], environment) as terminal:
        terminal.wait_for(lambda text: str(busy[0]) in text and "loss" in text)
        walk(terminal, "3 Processes", *HERE, *MORE, *launch)
