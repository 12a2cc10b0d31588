"""Launchers that end before a rank of theirs was seen: what they print explains it, attached to nothing but their output."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.agent.sampler import Sampler
from gputop.doctor.diagnosis import Doctor
from gputop.sources.virtual import VirtualSource
from gputop.untracked.unfollowed.launcher_ends import LauncherEnds
from tests.real_processes import eventually

PRINTS = """
import sys
for line in sys.stdin:
    print(line, end="", flush=True)
sys.exit(1)
"""
MISSING = """\
/usr/bin/python3: can't open file '/home/ada/trian.py': [Errno 2] No such file or directory
E1127 11:00:03.1 4242 api.py:984] failed (exitcode: 2) local_rank: 0 (pid: 4243) of binary: /usr/bin/python3
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
trian.py FAILED
"""
Launcher = subprocess.Popen[str]


@pytest.fixture
def torchrun(tmp_path: Path) -> Iterator[Callable[[str], Launcher]]:
    """Starts programs called torchrun that print to one file what they are sent, and then fail."""
    started: list[Launcher] = []
    program = tmp_path / "torchrun"
    program.write_text(PRINTS)

    def start(before: str = "") -> Launcher:
        (tmp_path / "train.log").write_text(before)
        with (tmp_path / "train.log").open("a") as out:
            process = subprocess.Popen(
                [sys.executable, str(program), "trian.py"], stdin=subprocess.PIPE, stdout=out, stderr=out, text=True
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def patterns(ends: LauncherEnds, pid: int) -> list[str]:
    return [
        match.pattern for match in ends.poll((), (), ()) if match.run_id is not None and match.run_id.startswith(f"pid-{pid}-")
    ]


def test_a_launcher_that_fails_without_ranks_is_explained(torchrun: Callable[[str], Launcher]) -> None:
    ends, process = LauncherEnds(), torchrun("")
    assert ends.poll([process.pid], ()) == ()
    process.communicate(MISSING)
    found = eventually(lambda: patterns(ends, process.pid), bool)
    (first, *_) = ends.poll((), ())
    assert found[0] == first.pattern
    assert "can't open file '/home/ada/trian.py'" in first.line
    assert (first.job_state, first.file, first.unproven) == ("failed", "train.log", True)
    assert ends.poll((), (), recorded=[process.pid]) == (), "its journal tells it"


def test_a_launcher_with_ranks_is_left_to_its_run(torchrun: Callable[[str], Launcher]) -> None:
    ends, process = LauncherEnds(), torchrun("")
    ends.poll([process.pid], ())
    ends.poll([process.pid], [process.pid])
    ends.poll([process.pid], ())
    process.communicate(MISSING)
    assert ends.poll((), ()) == ()
    assert ends._ended == []


def test_what_ends_well_and_what_was_printed_before_says_nothing(torchrun: Callable[[str], Launcher]) -> None:
    ends, process = LauncherEnds(), torchrun(MISSING)
    ends.poll([process.pid], ())
    process.communicate("usage: torchrun [-h] ...\n")
    ends.poll((), ())
    (ended,) = ends._ended
    eventually(lambda: [thread.name for thread in threading.enumerate()], lambda names: "launcher-ends" not in names)
    assert ended.texts == ()


def test_the_doctor_names_why_a_launcher_failed(torchrun: Callable[[str], Launcher]) -> None:
    source = VirtualSource(2)
    source.start(0.1)
    sampler, doctor, process = Sampler(source, 0.1), Doctor(), torchrun("")
    eventually(lambda: (sampler.take(), sampler._host.own_launchers)[1], lambda found: process.pid in found)
    process.communicate(MISSING)

    def named() -> list[str]:
        return [
            finding.title for finding in doctor.observe(sampler.take()) if finding.run and f"-{process.pid}-" in finding.run
        ]

    found = eventually(named, bool)
    source.close()
    assert "trian.py" in found[0]
