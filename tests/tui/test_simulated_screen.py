"""The dashboard on the simulated driver: it agrees with the other outputs and with nvitop, and survives every fault."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.snapshot import Snapshot
from tests import nvml_sim
from tests.nvml_sim import GIB, Scenario
from tests.patience import DEADLINE_S
from tests.terminal import Terminal

GPUTOP = [sys.executable, "-m", "gputop"]


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def dashboard(scenario: Path, *arguments: str, columns: int = 160, rows: int = 50) -> Terminal:
    environment = nvml_sim.environment(scenario)
    return Terminal([*GPUTOP, "-i", "500ms", *arguments], environment, columns, rows)


def gpu_row(text: str, index: int) -> tuple[int, str] | None:
    """Return (utilization, used GiB) of a GPU as the dashboard shows them."""
    found = re.search(rf"^ [ ▸] *{index} +(?:\S+ +)?(\d+)% .*? (\d+\.\d)/80G", text, re.MULTILINE)
    return (int(found[1]), found[2]) if found else None


def different_box(pid: int) -> Scenario:
    """Eight H100s that all differ, so that a mix-up shows."""
    scenario = nvml_sim.h100_box(8, busy=8)
    for index in range(8):
        scenario.set(index, utilization=10 + 11 * index, memory_used=(5 + 9 * index) * GIB, power=100 + 50 * index)
    return scenario.process(3, pid, 31 * GIB, 41.0)


def test_dashboard_once_json_and_nvitop_agree(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    path = different_box(worker.pid).write(tmp_path / "scenario")
    expected = [(10 + 11 * index, f"{5 + 9 * index}.0") for index in range(8)]
    environment = nvml_sim.environment(path)

    with dashboard(path) as terminal:
        terminal.wait_for(lambda text: all(gpu_row(text, index) for index in range(8)))
        text = terminal.wait_for(lambda text: str(worker.pid) in text and "SIMULATED" in text)
        assert [gpu_row(text, index) for index in range(8)] == expected
        row = next(line for line in terminal.lines() if str(worker.pid) in line)
        assert re.search(rf"^ +3 +{worker.pid} .* 31\.0 GiB +41 ", row), row
        terminal.press("q")
        assert terminal.wait_exit() == 0

    def output(*command: str) -> str:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=180).stdout

    snapshot = Snapshot.from_json(output(*GPUTOP, "--once", "--json"))
    assert [(d.utilization_percent, d.memory_used_bytes) for d in snapshot.devices] == [
        (float(use), int(float(used) * GIB)) for use, used in expected
    ]
    once = re.findall(r"^(\d) +(\d+)% +(\d+\.\d)/80", output(*GPUTOP, "--once"), re.MULTILINE)
    assert [(int(use), used) for _, use, used in once] == expected
    nvitop = output(str(Path(sys.executable).parent / "nvitop"), "-1")
    peers = re.findall(r"(\d+(?:\.\d+)?)(MiB|GiB) / 80\.00GiB .*? (\d+)% ", nvitop)
    in_gib = [(int(use), f"{float(used) / (1024 if unit == 'MiB' else 1):.1f}") for used, unit, use in peers]
    assert in_gib == expected, nvitop
    assert str(worker.pid) in nvitop


LAUNCHER = """
import os, subprocess, sys
environment = os.environ | {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
ranks = [
    subprocess.Popen([sys.executable, *sys.argv[1:]], env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
    for rank in (0, 1, 3)
]
print(*[rank.pid for rank in ranks], flush=True)
for rank in ranks:
    rank.wait()
"""


@pytest.fixture
def foreign_ranks(tmp_path: Path) -> Iterator[list[int]]:
    """Three of four ranks that a launcher started without gputop; they end when its process does."""
    (tmp_path / "torchrun").write_text(LAUNCHER)
    script = tmp_path / "train it.py"
    script.write_text("import os, time\nparent = os.getppid()\nwhile os.getppid() == parent:\n    time.sleep(0.1)\n")
    command = [sys.executable, str(tmp_path / "torchrun"), str(script), "--lr", "0.1"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUTOP_")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=kept)
    assert process.stdout is not None
    yield [int(word) for word in process.stdout.readline().split()]
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.alone  # the trainings of other tests are untracked runs, too
def test_a_run_that_gputop_did_not_start_is_shown_everywhere(tmp_path: Path, foreign_ranks: list[int]) -> None:
    scenario = nvml_sim.h100_box(4, busy=2)
    for gpu, pid in enumerate(foreign_ranks[:2]):
        scenario.process(gpu, pid, 60 * GIB, 97.0)
    path = scenario.process(3, foreign_ranks[2], GIB, 0.0).write(tmp_path / "scenario")
    with dashboard(path) as terminal:
        text = terminal.wait_for(lambda text: "train it.py" in text and "not tracked" in text)
        assert re.search(r"train it\.py  torchrun, 3 ranks  world size 8  up \d+s  \w+", text), text
        assert re.search(r"GPU 0, 1, 3  mean \d+%  lowest 0% \(GPU 3\)", text), text
        assert "local rank 2 not seen on this machine" in text
        assert "4 ranks on other machines" in text
        assert "gputop run -- torchrun … train it.py …" in text
        assert "No run yet" not in text
        terminal.press("q")
        assert terminal.wait_exit() == 0
    environment = nvml_sim.environment(path)

    def output(*arguments: str) -> str:
        command = [*GPUTOP, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=180).stdout

    assert re.search(r"^train it\.py +torchrun +3/8 +0-1,3 ", output("--once"), re.MULTILINE)
    assert re.search(r"^PID \d+ +train it\.py +not tracked +3 +N/A +N/A ", output("runs"), re.MULTILINE)


FAULTS: dict[str, tuple[Callable[[], Scenario], str]] = {
    "lost": (lambda: nvml_sim.lost_gpu(1, 8), "fallen off the bus"),
    "hangs": (lambda: nvml_sim.one_hangs(1, 8), "has not answered"),
    "no-permission": (lambda: nvml_sim.no_permission(8), "root can list them"),
    "every-reading-na": (lambda: nvml_sim.all_na(8), "N/A"),
    "slow": (lambda: nvml_sim.slow_driver(8, 20), "H100"),
    "unified": (nvml_sim.unified_memory, "GB10"),
    "mig": (nvml_sim.mig_box, "3g.40gb"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_leaves_the_rest_of_the_screen_alive(tmp_path: Path, name: str) -> None:
    build, words = FAULTS[name]
    path = nvml_sim.h100_box(8, busy=8).write(tmp_path / "scenario")
    running = name in ("lost", "hangs", "no-permission", "every-reading-na", "slow")
    if not running:
        build().write(path)
    with dashboard(path) as terminal:
        if running:
            terminal.wait_for(lambda text: gpu_row(text, 7) == (98, "71.2"))
            build().write(path)
        terminal.wait_for(words)
        if name in ("lost", "hangs", "slow"):
            # The others continue: a change on GPU 7 is seen.
            build().set(7, utilization=33, memory_used=12 * GIB).write(path)
            terminal.wait_for(lambda text: gpu_row(text, 7) == (33, "12.0"))
        terminal.press("?")
        terminal.wait_for("help")
        terminal.press("escape")
        terminal.wait_for("3 Processes")
        terminal.press("q")
        assert terminal.wait_exit() == 0


@pytest.mark.parametrize(
    ("scenario", "words"),
    [(nvml_sim.driver_mismatch(), "version"), (nvml_sim.driver_not_loaded(), "not loaded"), (Scenario(), "no")],
    ids=["mismatch", "not-loaded", "no-gpu"],
)
def test_without_a_usable_driver_the_screen_says_why_and_shows_virtual_gpus(
    tmp_path: Path, scenario: Scenario, words: str
) -> None:
    with dashboard(scenario.write(tmp_path / "scenario")) as terminal:
        terminal.wait_for("VIRTUAL")
        terminal.wait_for("Press l to launch")
        assert words in terminal.text().lower()


@pytest.mark.parametrize(("columns", "rows"), [(160, 50), (100, 30), (80, 24)])
def test_every_size_is_drawn_whole_and_survives_resizing(tmp_path: Path, columns: int, rows: int) -> None:
    path = nvml_sim.h100_box(8, busy=3).write(tmp_path / "scenario")
    with dashboard(path, columns=columns, rows=rows) as terminal:
        terminal.wait_for("3 of 8 GPUs work")
        for size in ((80, 24), (160, 50), (20, 5), (columns, rows)):
            terminal.resize(*size)
            terminal.wait_for(lambda text: text.strip())

        def whole(text: str) -> bool:
            rows = all(re.search(rf"^ [ ▸] *{index} +\d+%", text, re.MULTILINE) for index in range(8))
            return rows and "3 of 8 GPUs work" in text and "q quit" in text

        terminal.wait_for(whole)
        terminal.press("ctrl+c")
        assert terminal.wait_exit() == 0


def test_sixteen_gpus_fit(tmp_path: Path) -> None:
    path = nvml_sim.living_box(16).write(tmp_path / "scenario")
    with dashboard(path) as terminal:
        text = terminal.wait_for("16 of 16 GPUs work")
        assert all(re.search(rf" {index} +\d+%", text) for index in range(16)), text


def test_the_mouse_chooses_and_keys_reach_every_screen(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    path = different_box(worker.pid).write(tmp_path / "scenario")
    with dashboard(path) as terminal:
        terminal.wait_for(str(worker.pid))
        for key, words in (("l", "Recipes"), ("d", "› doctor"), ("?", "help"), ("f2", "Settings")):
            terminal.press(key)
            terminal.wait_for(lambda text, words=words: words in text and "3 Processes" not in text)
            terminal.press("escape")
            terminal.wait_for("3 Processes")
        terminal.wait_for("l launch  d")
        terminal.click(*(terminal.find("l launch  d") or pytest.fail(terminal.text())))
        terminal.wait_for("Recipes")
        terminal.press("escape")
        terminal.wait_for("3 Processes")
        terminal.press("/", "n", "o", "b", "o", "d", "y")
        terminal.wait_for(lambda text: str(worker.pid) not in text)
        terminal.press("escape")
        terminal.wait_for(str(worker.pid))
        terminal.press("home", "enter")
        terminal.wait_for("Environment at launch")
        terminal.press("e")
        terminal.wait_for("GPUTOP_DIR=")
        terminal.press("escape", "escape")
        terminal.wait_for("3 Processes")
        terminal.press("p")
        terminal.wait_for("PAUSED")
        terminal.press("p", "+")
        terminal.wait_for("1.0 s")
        terminal.press("k")
        terminal.wait_for("Signal process")
        terminal.press("down", "down", "enter")
        assert worker.wait(DEADLINE_S) == -15


def test_a_recording_replays_on_the_screen(tmp_path: Path) -> None:
    path = different_box(1).write(tmp_path / "scenario")
    file = tmp_path / "r.ndjson"
    command = [*GPUTOP, "record", str(file), "-i", "200ms", "--for", "3s"]
    subprocess.run(command, env=nvml_sim.environment(path), check=True, timeout=180, capture_output=True)
    with Terminal([*GPUTOP, "replay", str(file)]) as terminal:
        text = terminal.wait_for(lambda text: "REPLAY" in text and gpu_row(text, 7))
        assert gpu_row(text, 7) == (87, "68.0")
        terminal.press("p")
        terminal.wait_for("paused")
        terminal.press(".")
        terminal.press("}")
        terminal.wait_for("×2")
        terminal.press("p")
        terminal.wait_for("end")
        terminal.press("k")
        terminal.wait_for("recording")
        terminal.press("escape", "q")
        assert terminal.wait_exit() == 0
