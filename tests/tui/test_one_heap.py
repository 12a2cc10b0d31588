"""The threads of the screen and of the sampler share one heap."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gputop.settings.values import Settings
from gputop.tui import watching_app
from gputop.tui.app import GputopApp
from tests import REPOSITORY, nvml_sim, samples
from tests.terminal import Terminal
from tests.tui.kit import StillFeed
from tests.tui.screens.launch.test_launch import until

HEAP_BYTES = 64 * 2**20
"""glibc reserves so much, aligned, for each heap that is not the main thread's."""


def heaps_of_threads(pid: int | str) -> int:
    """Count the heaps of a process besides the main thread's."""
    found, before, began = 0, 0, 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, access, *_ = line.split()
        start, end = (int(part, 16) for part in addresses.split("-"))
        if access == "---p" and start == before and began % HEAP_BYTES == 0 and end == began + HEAP_BYTES:
            found += 1
        before, began = end, start
    return found


ALLOCATES = """
import sys, threading
if sys.argv[1] == "shared":
    from gputop.agent.one_heap import share_one_heap
    share_one_heap()
ready, kept = threading.Barrier(3), []
def allocate():
    kept.append(bytes(50_000))
    ready.wait()
    ready.wait()
for _ in range(2):
    threading.Thread(target=allocate).start()
ready.wait()
from tests.tui.test_one_heap import heaps_of_threads
print(heaps_of_threads("self"))
ready.wait()
"""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this C library has one heap")


@glibc
def test_threads_have_heaps_of_their_own_unless_they_share_one() -> None:
    found = {
        way: int(
            subprocess.run(
                [sys.executable, "-c", ALLOCATES, way], capture_output=True, text=True, check=True, cwd=REPOSITORY
            ).stdout
        )
        for way in ("own", "shared")
    }
    assert found == {"own": 2, "shared": 0}


@glibc
def test_the_screen_and_its_sampler_have_one_heap_each(tmp_path: Path) -> None:
    scenario = nvml_sim.h100_box(2, busy=1).write(tmp_path / "scenario")
    environment = {**nvml_sim.environment(scenario), "GPUTOP_DIR": str(tmp_path / "gputop"), "HOME": str(tmp_path)}
    with Terminal((sys.executable, "-m", "gputop"), environment, 120, 40) as terminal:
        terminal.wait_for("q quit")
        screen = psutil.Process(terminal.process.pid)
        processes = [screen, *screen.children()]
        assert len(processes) == 2
        assert all(process.num_threads() > 1 for process in processes)
        assert [heaps_of_threads(process.pid) for process in processes] == [0, 0]
        terminal.press("q")
        assert terminal.wait_exit() == 0


async def test_freed_memory_is_given_back_while_a_screen_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    monkeypatch.setattr(watching_app, "GIVEN_BACK_S", 0.01)
    monkeypatch.setattr(watching_app, "give_back", lambda: given.append(True))
    app = GputopApp(StillFeed(samples.snapshot()), Settings())  # type: ignore[arg-type]
    async with app.run_test() as pilot:
        await until(pilot, lambda: len(given) > 2)
