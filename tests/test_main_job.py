"""The main job, as a person does it: keys into a real terminal, eyes on its screen.

Start gputop on a machine without a GPU, launch DDP on two virtual GPUs, see both work and the loss fall; stop it; launch
the run with every rank on one GPU, and read why only one works. Quit; what was launched goes on.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.terminal import Terminal

pytestmark = pytest.mark.timeout(600)

GPUTOP = [sys.executable, "-m", "gputop"]
VERDICT = re.compile("GPUs (work|idle)")
LOADED_S = 150.0
"""A deadline, not a claim: torch is imported by each rank, on a machine that may be busy with other tests."""

WATCHES = ("12s", "30s")
"""How long the doctor watches: on a busy machine it needs longer to be certain."""


def job_processes() -> list[psutil.Process]:
    """Processes of this test's jobs: they carry this test's state directory."""
    mine = os.environ["GPUTOP_DIR"]
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        if "GPUTOP_JOB_ID" in environment and environment.get("GPUTOP_DIR") == mine:
            found.append(process)
    return found


def own_job() -> str:
    """The id of this test's job."""
    return next(process.environ()["GPUTOP_JOB_ID"] for process in job_processes())


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with Terminal([*GPUTOP, "--virtual", "2"]) as opened:
        yield opened
    for process in job_processes():
        process.kill()


def shown_loss(text: str) -> float | None:
    found = re.search(r"loss (\d+\.?\d*)", text)
    return float(found[1]) if found else None


_FORM = re.compile(r"╭.2 (\S.*?)  ")
"""The frame of the launch form, which names the recipe, or "your own command"."""


def launch(terminal: Terminal, form_title: str) -> None:
    """Open the launch screen, walk down to a recipe, start it on both GPUs and go back to the dashboard."""
    terminal.press("l")
    terminal.wait_for("Recipes")
    terminal.press("home")
    terminal.wait_for(re.compile(r"2 single  ").search)  # else the recipe that was chosen before may be the wanted one
    chosen = re.compile(rf"2 \S+  (Fault: )?{re.escape(form_title)}")  # the form's frame; the list names every recipe
    below = ""
    for _ in range(40):
        # On a busy machine the screen follows late: the next key waits until it shows the last one, for some seconds.
        end = time.monotonic() + 5
        while (shown := _FORM.search(terminal.text())) is None or shown[1] == below:
            if time.monotonic() > end:
                break
            time.sleep(0.1)
        assert shown is not None, terminal.text()
        if chosen.search(terminal.text()):
            break
        below = shown[1]
        terminal.press("down")
    terminal.wait_for(chosen.search)
    for row in (0, 1):
        wanted = re.compile(rf"\[x\] {row} ")
        if not wanted.search(terminal.text()):
            column, line = terminal.find(f"[ ] {row} ") or pytest.fail(terminal.text())
            terminal.click(column + 1, line)
        terminal.wait_for(wanted.search)
    terminal.press("f5")
    terminal.wait_for(re.compile(r"│ (starting|running) ").search)
    terminal.press("escape")
    terminal.wait_for(VERDICT.search)


@pytest.mark.alone
def test_launch_ddp_watch_it_stop_it_then_a_faulty_run_and_its_cause(terminal: Terminal) -> None:
    terminal.wait_for("2 × virtual GPU")
    terminal.wait_for("Press l to launch")

    launch(terminal, "DistributedDataParallel")
    terminal.wait_for(lambda text: shown_loss(text) is not None, LOADED_S)
    first = shown_loss(terminal.wait_for(lambda text: (shown_loss(text) or 0) > 1.0, LOADED_S))
    assert first is not None
    terminal.wait_for("2 of 2 GPUs work", LOADED_S)
    terminal.wait_for(lambda text: (shown_loss(text) or 99) < 0.7 * first, LOADED_S)
    text = terminal.wait_for("2 ranks")
    assert "A07" not in text

    job = own_job()
    # Somebody else's training may be listed first, and the key stops what the cursor is on.
    terminal.press("/", f"run:{job}", "enter")
    terminal.wait_for(re.compile(rf"· [1-9]\d* of \d+  /run:{job}").search)
    terminal.press("k")
    terminal.wait_for(f"Stop job {job}")
    terminal.press("y")
    deadline = time.monotonic() + LOADED_S
    while job_processes() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert job_processes() == [], f"the stopped job left processes behind\n{terminal.text()}"
    terminal.press("escape")
    terminal.wait_for(lambda text: "run:" not in text)

    launch(terminal, "all ranks on one GPU")
    terminal.wait_for("A07", LOADED_S)
    terminal.wait_for("1 of 2 GPUs work", LOADED_S)
    terminal.wait_for(lambda text: all(words in text for words in ("A07 Only GPU 0 is used", "LOCAL_RANK", "fix: ")))

    terminal.press("d")
    terminal.wait_for(lambda text: "set_device" in text and "certain" in text, LOADED_S)
    terminal.press("escape")
    terminal.wait_for(VERDICT.search)

    terminal.press("q")
    assert terminal.wait_exit() == 0
    assert "keeps running" in terminal.text()
    assert job_processes(), "quitting must not end a job"
    job = own_job()
    assert job in subprocess.run([*GPUTOP, "jobs"], capture_output=True, text=True, check=True).stdout

    for watch in WATCHES:
        command = [*GPUTOP, "doctor", "--virtual", "2", "--for", watch, "--json"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=LOADED_S, check=False)
        if told.returncode:
            break
    assert told.returncode == 1, told.stderr
    verdict = json.loads(told.stdout)["findings"][0]
    assert (verdict["id"], verdict["severity"], verdict["confidence"]) == ("A07", "error", "certain")
    assert {"title", "evidence", "cause", "fix", "devices", "pids", "run"} <= verdict.keys()
    assert all(fact.keys() == {"text", "value", "source"} for fact in verdict["evidence"])
    assert verdict["run"] == job

    subprocess.run([*GPUTOP, "stop", job], check=True, timeout=180)
    assert job_processes() == []


def test_a_lost_connection_ends_the_screen_and_not_the_job(terminal: Terminal) -> None:
    terminal.wait_for(VERDICT.search)
    launch(terminal, "DistributedDataParallel")
    terminal.wait_for(lambda _: len(job_processes()) >= 2, LOADED_S)
    terminal.close()
    assert terminal.process.returncode is not None
    time.sleep(1.0)
    assert job_processes(), "a lost connection must not end a job"


def test_a_killed_screen_leaves_the_job_and_the_next_one_lists_it(terminal: Terminal) -> None:
    terminal.wait_for(VERDICT.search)
    launch(terminal, "DistributedDataParallel")
    terminal.wait_for(lambda _: len(job_processes()) >= 2, LOADED_S)
    samplers = [child for child in psutil.Process(terminal.process.pid).children() if "agent" in child.cmdline()]
    assert samplers
    terminal.process.kill()
    terminal.process.wait(LOADED_S)
    _, left = psutil.wait_procs(samplers, timeout=90)
    assert not left, "the sampler outlives its screen"
    listed = json.loads(subprocess.run([*GPUTOP, "jobs", "--json"], capture_output=True, text=True, check=True).stdout)
    (job,) = listed
    assert job["state"] in ("starting", "running")
    subprocess.run([*GPUTOP, "stop", job["id"]], check=True, timeout=180)
    assert job_processes() == []
    (ended,) = json.loads(subprocess.run([*GPUTOP, "jobs", "--json"], capture_output=True, text=True, check=True).stdout)
    assert (ended["id"], ended["state"]) == (job["id"], "stopped")
