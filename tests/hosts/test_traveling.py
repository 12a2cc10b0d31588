"""A host without gputop: the one here travels over a real sshd, reads there, and leaves nothing behind."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
import threading
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.hosts import traveling
from gputop.hosts.feed import feeds_of
from gputop.hosts.fleet import read_once
from gputop.hosts.following import links_by
from gputop.hosts.transport import transport_of
from gputop.process import ProcessAnswer, ProcessDetails, ProcessQuestion
from gputop.snapshot import Snapshot
from tests import REPOSITORY, nvml_sim
from tests.hosts.machines.sshd import DEADLINE_S, Lab, lab, needs_sshd
from tests.house.walls import House
from tests.tracking.kit import eventually

assert lab
PYTHON = Path(sys.executable).resolve()
"""The interpreter without its virtual environment, and so without gputop, psutil and pynvml."""
TOO_OLD = '#!/bin/sh\ncase "$2" in *python_version*) echo 3.7.16;; *) exit 1;; esac\n'
NEEDS_HELP = '#!/bin/sh\ncase "$2" in *"(3, 8)"*) exit 0;; *) exit 1;; esac\n'


def bare(folder: Path, python: str | None = None) -> Path:
    """A folder of programs with a shell and, if wanted, a Python; and no gputop."""
    folder.mkdir()
    shell = shutil.which("sh")
    assert shell is not None
    (folder / "sh").symlink_to(shell)
    if python is not None:
        (folder / "python3").write_text(python)
        (folder / "python3").chmod(0o755)
    return folder


def marked(mark: str) -> list[int]:
    """The processes with this in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@needs_sshd
def test_a_host_needs_no_gputop(lab: Lab, tmp_path: Path) -> None:
    home = tmp_path / "a home é"
    home.mkdir()
    programs = bare(tmp_path / "bin", f'#!/bin/sh\nexec {shlex.quote(str(PYTHON))} "$@"\n')
    mark = f"GPUTOP_TEST_HOST={tmp_path}"
    driver = nvml_sim.environment(nvml_sim.h100_box(2).write(tmp_path / "scenario"))
    changed = [f"{name}={value}" for name, value in driver.items() if os.environ.get(name) != value]
    words = shlex.join([str(shutil.which("env")), "-i", f"HOME={home}", f"PATH={programs}", mark, *changed])
    transport = transport_of(f"ssh -F {shlex.quote(str(lab.config))} {{host}} {shlex.quote(words)}")
    (feed,) = feeds_of(links_by(["a"], transport, ("agent", "-i", "200ms")))
    seen: list[Snapshot] = []
    answers: list[object] = []
    came = threading.Event()
    feed.start(came.set)

    def until(happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not happened():
            assert time.monotonic() < deadline, (feed.problem(), seen, answers)
            came.wait(0.1)
            came.clear()
            seen.extend(feed.drain())
            answers.extend(feed.take_answers())

    try:
        until(lambda: seen)
        assert [device.name for device in seen[0].devices] == ["NVIDIA H100 80GB HBM3"] * 2
        (there,) = [pid for pid in marked(mark) if "python" in os.readlink(f"/proc/{pid}/exe")]
        feed.ask(ProcessQuestion(there))
        until(lambda: answers)
        (answer,) = answers
        assert isinstance(answer, ProcessAnswer)
        assert answer.details == ProcessDetails(), "psutil is compiled and does not travel"
    finally:
        feed.close()
    eventually(lambda: not marked(mark), "no process is left")
    assert not list(home.iterdir()), "something was written there"


@pytest.mark.parametrize(
    ("python", "said"), [(TOO_OLD, "3.8 or newer there, and its Python is 3.7."), (None, "and there is no python3.")]
)
def test_a_host_without_a_python_for_it(python: str | None, said: str, tmp_path: Path) -> None:
    programs = bare(tmp_path / "bin", python)
    words = shlex.join([str(shutil.which("env")), "-i", f"HOME={tmp_path}", f"PATH={programs}"])
    (heard,) = read_once(["a"], transport_of(f"{words} GPUTOP_TEST_HOST={{host}}"), ["--once", "--json"])
    assert heard.status.state == "no_python"
    assert said in str(heard.status.message)


def test_a_python_that_needs_no_help_is_preferred(tmp_path: Path) -> None:
    programs = bare(tmp_path / "bin", NEEDS_HELP)
    words = shlex.join([str(shutil.which("env")), "-i", f"HOME={tmp_path}", f"PATH={programs}"])
    transport = transport_of(f"{words} GPUTOP_TEST_HOST={{host}}")
    (heard,) = read_once(["a"], transport, ["--once", "--json"])
    assert heard.snapshot is None
    (programs / "python3.10").write_text(f'#!/bin/sh\nexec {shlex.quote(str(PYTHON))} "$@"\n')
    (programs / "python3.10").chmod(0o755)
    (heard,) = read_once(["a"], transport, ["--once", "--json"])
    assert heard.snapshot is not None, heard.status.sentence


def test_what_travels_is_as_small_as_the_documents_say() -> None:
    assert len(traveling.message()) < 1 << 20


def test_what_travels_is_all_that_the_agent_may_import() -> None:
    message = traveling.message()
    data = message[traveling.SIZE_DIGITS :]
    assert int(message[: traveling.SIZE_DIGITS]) == len(data)
    there = set(zipfile.ZipFile(io.BytesIO(data)).namelist())
    house = House(REPOSITORY / "gputop")
    imports: dict[str, set[str]] = defaultdict(set)
    for found, module in house.ours():
        imports[house.module(found.importer)].add(module)
    waiting = [module for module in map(house.module, house.sources) if module.startswith("gputop.agent")]
    needed: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module not in needed:
            needed.add(module)
            # The doctor itself is imported by its package for others, and only when its name is asked for.
            waiting += imports[module] if module != "gputop.doctor" else set()
    missing = {name for name in house.sources if house.module(name) in needed and f"gputop/{name}" not in there}
    assert not missing, "take its package out of NOT_NEEDED in gputop/hosts/traveling.py"
