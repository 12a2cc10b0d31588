"""No command lets a name, a command line, a log or an argument steer the terminal that it prints on.

A driver forks one child for each command, on a real pty, so that Python and gputop are loaded once.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.cli.output.terminal import Output, safe_output
from gputop.cli.parser import build_parser
from gputop.jobs import record
from gputop.places import jobs_dir
from gputop.sources.recording import Recorder
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.journal.writing.files import OpenJournal
from tests import nvml_sim, samples
from tests.tracking.kit import Home, home

assert home

FORGED = "9. FORGED"
EVIL = f"evil\x1b]0;title\x07\x1b[2J\x9b31m\u202etxt\u2066\u200f\r\n{FORGED}\x85\u2028end"
JOB = "20261122-141300-3f2a"
NO_JOB = f"{JOB}{EVIL}"
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

DRIVER = """
import base64, json, os, pty, sys
import gputop.cli.doctor.machine, gputop.cli.jobs, gputop.cli.main, gputop.cli.output.once, gputop.cli.runs
import gputop.doctor.diagnosis
import gputop.agent.sampler, gputop.doctor.report, gputop.doctor.rules
for arguments, typed in json.load(sys.stdin):
    pid, master = pty.fork()
    if not pid:
        try:
            code = gputop.cli.main.main(arguments)
        except SystemExit as left:
            code = left.code or 0
        except BaseException:
            import traceback
            traceback.print_exc()
            code = 99
        sys.stdout.flush()
        os._exit(code)
    os.write(master, typed.encode())
    said = b""
    try:
        while data := os.read(master, 65536):
            said += data
    except OSError:
        pass
    os.close(master)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), base64.b64encode(said).decode()]), flush=True)
"""


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its commands, at any depth."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from commands(inner)


def cases(folder: Path) -> dict[str, list[list[str]]]:
    """Return for each command how it is called here."""
    complaining = f"sh -c 'printf %s \"$0\" >&2' {shlex.quote(EVIL)} {{host}}"
    recording, log = str(folder / f"recording{EVIL}"), str(folder / f"log{EVIL}")
    return {
        "gputop": [
            *(["--once"], [EVIL], ["--nonsense" + EVIL], ["-i", EVIL], ["--once", "-g", EVIL], ["--theme", EVIL]),
            *(["--once", "-H", EVIL], ["--once", "--hosts", log], ["--once", "-H", "a", "--via", EVIL]),
            *(["--once", "--slurm", EVIL], ["--once", "--pods", EVIL]),
            *(["--once", "--prometheus", EVIL], ["--once", "--prometheus", "http://127.0.0.1:1", "--prometheus-auth", EVIL]),
            ["--once", "-H", "a", "--via", complaining],
        ],
        "gputop run": [["run", "--bad" + EVIL, "--", "x"], ["run", "--name", EVIL, "--", "/nonexistent" + EVIL], ["run"]],
        "gputop demo": [["demo", EVIL], ["demo", "ddp", "--devices", EVIL], ["demo", "ddp", "--epochs", EVIL]],
        "gputop launch": [
            *(["launch", EVIL], ["launch", "--", f"/nonexistent{EVIL}"], ["launch", "--cwd", EVIL, "--", "true"]),
            *(["launch", "-H", "a", "--via", complaining, "--", "true"], ["launch", f"--sbatch=--bad{EVIL}", "--", EVIL]),
        ],
        "gputop jobs": [["jobs"], ["jobs", "--json"], ["jobs", EVIL], ["jobs", "-H", "a", "--via", complaining]],
        "gputop logs": [["logs", JOB], ["logs", NO_JOB], ["logs", JOB, "-H", "a", "--via", complaining]],
        "gputop stop": [["stop", JOB], ["stop", NO_JOB], ["stop", JOB, "-H", "a", "--via", complaining]],
        "gputop runs": [["runs"], ["runs", "--json"], ["runs", EVIL], ["runs", "-H", "a", "--via", complaining]],
        "gputop runs show": [
            *(["runs", "show", "evil"], ["runs", "show", EVIL], ["runs", "show", f"{EVIL}!"]),
            ["runs", "show", "evil", "-H", "a", "--via", complaining],
        ],
        "gputop runs rename": [["runs", "rename", EVIL, "x"], ["runs", "rename", "evil", "x" * 999]],
        "gputop runs tag": [["runs", "tag", "evil", "tag"], ["runs", "tag", EVIL, EVIL], ["runs", "tag", "evil", EVIL]],
        "gputop runs plot": [
            *(["runs", "plot", "evil"], ["runs", "plot", "evil", EVIL, "--width", "40"], ["runs", "plot", EVIL]),
            *(["runs", "plot", "evil", "--with", EVIL], ["runs", "plot", "evil", "--with", f"{EVIL}!"]),
        ],
        "gputop runs export": [["runs", "export", "evil", form_] for form_ in ("--csv", "--json")],
        "gputop runs import": [["runs", "import", log], ["runs", "import", EVIL]],
        "gputop runs prune": [["runs", "prune", "--keep", "0"], ["runs", "prune", "--older-than", EVIL]],
        "gputop doctor": [
            *(["doctor", "--for", "300ms", "-i", "100ms"], ["doctor", "--for", "100ms", "-i", "100ms", "--json"]),
            *(
                ["doctor", "--log", log],
                ["doctor", "--log", EVIL],
                ["doctor", "--rules", EVIL],
                ["doctor", "--run", f"{EVIL}!"],
            ),
            *(["doctor", "--replay", recording], ["doctor", "--for", EVIL]),
        ],
        "gputop profile": [["profile", EVIL], ["profile", "evil", "--cost"]],
        "gputop where": [["where"], ["where", EVIL], ["where", "evil"], ["where", "-H", "a", "--via", complaining]],
        "gputop selftest": [
            ["selftest", "-o", log],
            ["selftest", "--for", EVIL],
            ["selftest", "--no-training", "-o", f"{log}.json"],
        ],
        "gputop completion": [["completion"], ["completion", "--names", "runs"], ["completion", "--names", "jobs"]],
        "gputop pick": [["pick"], ["pick", EVIL]],
        "gputop export": [["export", "--address", EVIL], ["export", "--port", EVIL]],
        "gputop record": [["record", recording], ["record", EVIL, "--for", EVIL]],
        "gputop replay": [["replay", EVIL], ["replay", log], ["replay", recording, "--speed", EVIL]],
        "gputop agent": [["agent", "-i", EVIL]],
    }


def prepare(home: Home, folder: Path) -> None:
    """Write a run, a job, a log and a recording in which every text is hostile."""
    opened = OpenJournal(identity.identify(identity.Place(0, 0, 1, 0), "evil"), home.runs)
    card = {"name": EVIL, "project": EVIL, "job_id": JOB, "command": ["python", EVIL]}
    opened.journal.state("card", "run", card)
    opened.journal.state("config", EVIL, EVIL)
    for step in range(3):
        opened.journal.log(step=step, **{"loss": 1.0, EVIL: 2.0})
    opened.finish(form.FINISHED, None)
    directory = jobs_dir() / JOB
    directory.mkdir(parents=True)
    run = {"argv": ["python", EVIL], "device_uuids": [], "values": {}, "hostname": EVIL}
    spec = {"id": JOB, "name": EVIL, "recipe_id": EVIL, **run}
    ended = {"state": "ended", "exit_code": 1, "signal": None, "asked": [], "began_at": 1.0, "ended_at": 2.0}
    record.write_json(directory / record.SPEC, spec)
    record.write_json(directory / record.STATUS, {**ended, "problem": EVIL})
    error = f'{EVIL}\nTraceback (most recent call last):\n  File "{EVIL}", line 3\nRuntimeError: CUDA error: {EVIL}\n'
    (directory / record.OUT_LOG).write_text(error)
    (folder / f"log{EVIL}").write_text(error)
    shot = samples.ranks_on_one_gpu()
    processes = tuple(type(shot.processes[0])(**{**_fields(one), "command": ("python", EVIL)}) for one in shot.processes)
    with Recorder(folder / f"recording{EVIL}") as recorder:
        for number in range(30):
            changed = {**_fields(shot), "sequence": number, "processes": processes, "monotonic_s": shot.monotonic_s + number}
            recorder.write(type(shot)(**changed).to_json())


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def test_no_command_lets_a_name_control_the_terminal(home: Home, tmp_path: Path) -> None:
    called = cases(tmp_path)
    progs = {parser.prog for parser in commands(build_parser())}
    assert progs == set(called), "call each command here with hostile names of every origin"
    prepare(home, tmp_path)
    hidden = {"CUDA_VISIBLE_DEVICES": f"0,{EVIL}"}
    command = ["python", "-c", "import time; time.sleep(600)", EVIL]
    worker = subprocess.Popen(command, executable=sys.executable, env=os.environ | hidden)
    scenario = nvml_sim.h100_box(2, busy=1, pids=(worker.pid,)).write(tmp_path / "scenario")
    environment = nvml_sim.environment(scenario) | {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    listed = [arguments for group in called.values() for arguments in group]
    try:
        done = subprocess.run(
            [sys.executable, "-c", DRIVER],
            input=json.dumps([[arguments, "n\n" if "prune" in arguments else ""] for arguments in listed]),
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )
    finally:
        worker.kill()
        worker.wait()
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(listed)
    shown = {}
    for arguments, (code, raw) in zip(listed, answers, strict=True):
        said = base64.b64decode(raw).decode().replace("\r\n", "\n")
        if arguments[:2] == ["runs", "plot"]:
            said = re.sub(r"\x1b\[[0-9;]*m", "", said)  # gputop's own colors
        assert not _UNSAFE.search(said), (arguments, said)
        # A log keeps its lines. Otherwise a name may be wrapped with its line, but its own line breaks do not count.
        forged = [line for line in said.splitlines() if line.startswith(FORGED)]
        assert not forged or arguments[0] == "logs", (arguments, said)
        assert code in (0, 1, 2, 3, 127), (arguments, code, said)
        assert said or code == 0, arguments
        shown[" ".join(arguments)] = said
    assert "evil" in shown["--once"]
    assert "CUDA_VISIBLE_DEVICES=0,evil" in shown["doctor --for 300ms -i 100ms"]
    assert "evil" in shown["jobs"]
    assert json.loads(shown["jobs --json"])[0]["name"] == EVIL, "JSON is exact"


def test_a_pipe_gets_csv_exactly(home: Home, tmp_path: Path) -> None:
    prepare(home, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "gputop", "runs", "export", "evil", "--csv"], capture_output=True, env=os.environ, check=False
    )
    assert EVIL in done.stdout.decode()


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_gputop_s_own_colors_reach_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from gputop.cli.output.terminal import print_colored

    terminal = Tty()
    monkeypatch.setattr(sys, "stdout", terminal)
    with safe_output():
        assert isinstance(sys.stdout, Output)
        print(f"\x1b[31m{EVIL}\x1b[0m")
        print_colored("\x1b[31mred\x1b[0m\x1b[2J\x07")
    assert sys.stdout is terminal
    assert terminal.getvalue() == f"evil31mtxt\n{FORGED}end\n\x1b[31mred\x1b[0m\n"


def test_a_character_that_the_output_cannot_encode_is_escaped() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gputop", "runs", "show", "\u202e\udcff"],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii:strict"},
        check=False,
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
