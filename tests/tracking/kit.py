"""What the tests of the training side share: a separate home, scripts as real processes, and a reader of all points."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gputop.snapshot import Run
from gputop.tracking.journal import format as form
from gputop.tracking.journal import places
from gputop.tracking.journal.read import JournalReader
from gputop.tracking.reader.runs import RunReader
from gputop.wire import FormatError
from tests import REPOSITORY
from tests.facts.checks import assert_facts
from tests.nursery import Training, fits, fits_ranks, is_warm, nursery
from tests.patience import DEADLINE_S, pause_s

ATTEMPTS = 4
SCRIPTS_OWN = ("a", "at", "count")
"""Facts that the tests' scripts write themselves."""
GLOO_ABORTS = "terminate called without an active exception"
T = TypeVar("T")
_OWN = ("GPUTOP", "WANDB_", "TORCHELASTIC", "SLURM", "OMPI_", "PMI_", "MASTER_", "RANK", "LOCAL_", "WORLD_SIZE")


def clean_environment(state: Path, **more: str) -> dict[str, str]:
    """Return the environment without anything that affects tracking, and with the test's own state directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    return {**kept, "GPUTOP_DIR": str(state), "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **more}


def without_checkout(text: str) -> str:
    """Return a text without the path of this checkout: a clone's folder is usually called gputop, and warnings name files."""
    return text.replace(str(REPOSITORY), "")


class Home:
    """A state directory, and the processes that a test started with it."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.runs = state / "runs"
        self.started: list[subprocess.Popen[str] | Training] = []
        self.any_facts = False
        """Whether scripts write their own facts, which are not in the schema."""
        self.warm = False
        """Whether scripts are forks of a process that has imported torch, if possible: see ``tests/nursery``."""

    def check(self, facts: Mapping[str, Any]) -> None:
        """Assert that the facts fit the schema."""
        if not self.any_facts:
            assert_facts(facts, SCRIPTS_OWN)

    def start(
        self, script: str, *arguments: str, command: Sequence[str] = (), **environment: str
    ) -> subprocess.Popen[str] | Training:
        """Start a script; its stdin, stdout and stderr are pipes."""
        return self.open(self._words(script, arguments, command), Path.cwd(), **environment)

    def _words(self, script: str, arguments: Sequence[str], command: Sequence[str]) -> list[str]:
        path = self.state / f"script{len(self.started)}.py"
        self.state.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
        return [*(command or (sys.executable,)), str(path), *arguments]

    def open(self, command: Sequence[str], directory: Path, **environment: str) -> subprocess.Popen[str] | Training:
        """Start a command in a directory; its stdin, stdout and stderr are pipes."""
        given = clean_environment(self.state, **environment)
        if self.warm and fits(command, given):
            training = nursery().start(command, directory, given)
            self.started.append(training)
            return training
        process = subprocess.Popen(
            list(command),
            env=given,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, script: str, *arguments: str, command: Sequence[str] = (), **environment: str) -> tuple[int, str, str]:
        """Run a script to its end; return exit code, stdout, stderr. Run it again if torch's gloo aborts at the end."""
        words = self._words(script, arguments, command)
        if self.warm and fits_ranks(words, environment):
            done = self.finish(words, Path.cwd(), **environment)
            return done.returncode, done.stdout, done.stderr
        for _ in range(ATTEMPTS):
            process = self.start(script, *arguments, command=command, **environment)
            out, err = process.communicate(timeout=180)
            if GLOO_ABORTS not in err:
                break
            shutil.rmtree(self.runs, ignore_errors=True)
        return process.returncode, out, err

    def finish(self, command: Sequence[str], directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end in a directory, on one thread; run it again if torch's gloo aborts at the end.

        Gloo sometimes does so, tracked or not: "terminate called without an active exception".
        """
        for _ in range(ATTEMPTS):
            environment = {"OMP_NUM_THREADS": "1", **environment}
            given = clean_environment(self.state, **environment)
            if self.warm and fits_ranks(command, given):
                started = nursery().start_ranks(command, directory, given)
                self.started.extend(started)
            else:
                started = [self.open(command, directory, **environment)]
            with ThreadPoolExecutor() as pool:
                said = pool.map(lambda process: process.communicate(timeout=8 * DEADLINE_S), started)
                out, err = ("".join(texts) for texts in zip(*said, strict=True))
            codes = [process.returncode for process in started]
            done = subprocess.CompletedProcess(list(command), codes[0] if len(codes) == 1 else int(any(codes)), out, err)
            if GLOO_ABORTS not in done.stderr:
                break
            shutil.rmtree(self.runs, ignore_errors=True)
        return done

    def archives(self) -> list[Path]:
        """All journals, by name."""
        return sorted(self.runs.glob("*/rank-*.gpr"))

    def rings(self) -> list[Path]:
        """All remaining rings."""
        return [ring for directory in places.live_dirs(self.runs) for ring in sorted(directory.glob("*.ring"))]

    def only_run(self) -> Run:
        """The only run, read by a new reader."""
        reader = RunReader(self.runs)
        try:
            (run,) = reader.poll().runs
            for rank in run.ranks:
                self.check(rank.facts)
            return run
        finally:
            reader.close()

    def close(self) -> None:
        """End what is still running, and remove what remains on tmpfs."""
        for process in self.started:
            if process.poll() is None:
                with suppress(ProcessLookupError):  # it ended just now
                    os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for directory in places.live_dirs(self.runs):
            shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Home]:
    for name in list(os.environ):
        if name.startswith(_OWN):
            monkeypatch.delenv(name)
    state = tmp_path / "state"
    monkeypatch.setenv("GPUTOP_DIR", str(state))
    monkeypatch.setattr("gputop.tracking.journal.notice._told", set())
    found = Home(state)
    found.warm = is_warm(request.node)
    yield found
    import gputop

    gputop.finish()
    found.close()
    for archive in found.archives():
        with suppress(FormatError, OSError):  # a test damaged it on purpose
            # Every fact that was written, including replaced ones.
            for kind, _, value in read_all(archive).events:
                if kind == form.EVENT and isinstance(value, dict) and value.get("type") == "fact":
                    found.check({value["name"]: value["value"]})


class Everything:
    """Receives all records of a journal, undecimated."""

    def __init__(self) -> None:
        self.series: dict[str, list[tuple[int, float]]] = {}
        self.times_ns: dict[int, int] = {}
        self.events: list[tuple[int, int, Any]] = []

    def scalars(
        self, names: Sequence[str], steps: Sequence[int], times_ns: Sequence[int], columns: Sequence[Sequence[float]]
    ) -> None:
        self.times_ns.update(zip(steps, times_ns, strict=True))
        for name, column in zip(names, columns, strict=True):
            self.series.setdefault(name, []).extend(zip(steps, column, strict=True))

    def event(self, kind: int, step: int, time_ns: int, value: Any) -> None:
        self.events.append((kind, step, value))


def read_all(archive: Path | None, ring: Path | None = None) -> Everything:
    """Read a journal from its beginning to its current end."""
    reader, sink = JournalReader(archive, ring), Everything()
    try:
        while reader.poll(sink):
            pass
    finally:
        reader.close()
    return sink


def eventually(probe: Callable[[], T | None], what: str, within_s: float = DEADLINE_S) -> T:
    """Return the first true answer; fail if there is none in time."""
    end = time.monotonic() + within_s
    while (began := time.monotonic()) < end:
        found = probe()
        if found:
            return found
        time.sleep(pause_s(time.monotonic() - began, 0.02))
    raise AssertionError(f"did not happen within {within_s:g} s: {what}")
