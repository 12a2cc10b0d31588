"""What tests start ends with them, also if they are killed: trainings that run on would disturb others for hours."""

from __future__ import annotations

import os
import subprocess
import sys

from gputop.process import DEAD_STATES
from gputop.sources.host import procfs
from tests import REPOSITORY, left_behind
from tests.real_processes import eventually

STARTS = """
import os, subprocess, sys
from tests import left_behind
left_behind.watch()
launches = '''
import os, signal, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True, **options)
         for options in ({}, {"env": {}})[: int(sys.argv[1])]]
if not (fork := os.fork()):
    signal.pause()
stays = sys.argv[1] == "2"
print(fork, *(rank.pid for rank in ranks), *([os.getpid()] if stays else []), flush=True)
ranks[-1].wait() if stays else None
'''
launcher = subprocess.Popen([sys.executable, "-c", launches, "2"], start_new_session=True)
subprocess.run([sys.executable, "-c", launches, "1"])  # its rank and its fork have no parent any more
launcher.wait()
"""
RUNNING = 6
"""A launcher, its fork and two ranks, one of which has no environment; the fork and the rank of a launcher that has ended."""


def is_alive(pid: int) -> bool:
    stat = procfs.read_stat(pid)
    return stat is not None and stat.state not in DEAD_STATES


def test_what_tests_have_started_ends_if_they_are_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as tests:
        try:
            assert tests.stdout is not None
            pids = {int(word) for _ in range(2) for word in tests.stdout.readline().split()}
            assert len({pid for pid in pids if is_alive(pid)}) == RUNNING
        finally:
            tests.kill()  # SIGKILL: no code of its own runs any more
    eventually(lambda: {pid for pid in pids if is_alive(pid)}, lambda left: not left)


def test_this_test_process_is_watched() -> None:
    word = os.environ[left_behind.NAME]
    watchers = [pid for pid in procfs.list_pids() if word in (procfs.command_line_of(pid) or ())]
    assert len(watchers) == 1
    stat = procfs.read_stat(watchers[0])
    assert stat is not None
    assert stat.ppid != os.getpid(), "tests that list what this process has started would find it"
