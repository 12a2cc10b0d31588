"""Launchers and scripts that end before a rank was seen: what they print explains it, attached to nothing but their output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.agent.sampler import Sampler
from gputop.doctor.diagnosis import Doctor
from gputop.sources.host import procfs, unlisted
from gputop.sources.virtual import VirtualSource
from gputop.untracked.unfollowed.launcher_ends import ENDED_MAX, LauncherEnds
from tests.real_processes import Processes, eventually

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


def test_the_reason_of_a_failure_is_kept_however_many_end_well_after_it(torchrun: Callable[[str], Launcher]) -> None:
    ends, process = LauncherEnds(), torchrun("")
    ends.poll([process.pid], ())
    process.communicate(MISSING)
    eventually(lambda: patterns(ends, process.pid), bool)
    for _ in range(2 * ENDED_MAX):
        other = torchrun("")
        ends.poll([other.pid], ())
        other.communicate("")
        ends.poll((), ())
    assert patterns(ends, process.pid)


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


RAISED = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
  File "train.py", line 6, in main
    config = json.load(open("config.json"))
FileNotFoundError: [Errno 2] No such file or directory: 'config.json'
"""


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    source = VirtualSource(2)
    source.start(0.1)
    yield Sampler(source, 0.1)
    source.close()


def told(sampler: Sampler, doctor: Doctor, pid: int) -> list[str]:
    return [item.title for item in doctor.observe(sampler.take()) if item.run is not None and f"-{pid}-" in item.run]


def test_the_doctor_names_why_an_mpirun_failed(sampler: Sampler, tmp_path: Path) -> None:
    """It is no Python, and so no process that gputop looks at for another reason."""
    program = shutil.copy(os.path.realpath("/bin/sh"), tmp_path / "mpirun")
    with (tmp_path / "train.log").open("w") as out:
        process = subprocess.Popen(
            [program, "-c", "cat; exit 1", "mpirun"], stdin=subprocess.PIPE, stdout=out, stderr=out, text=True
        )
    eventually(lambda: (sampler.take(), sampler._host.own_launchers)[1], lambda found: process.pid in found)
    ends = sampler._launcher_ends
    assert ends is not None
    assert process.pid in ends._alone, ends._alone
    process.communicate(RAISED)
    doctor = Doctor()

    def named() -> tuple[list[str], object]:
        """With what is known beside, in case that it never comes."""
        snapshot = sampler.take()
        findings = doctor.observe(snapshot)
        own = [item.title for item in findings if item.run is not None and f"-{process.pid}-" in item.run]
        beside = [(item.id, item.run, item.confidence, item.suppressed_by) for item in findings]
        return own, (ends._ended, beside, [(match.run_id, match.pattern) for match in snapshot.logs])

    found, _ = eventually(named, lambda seen: seen[0])
    assert found[0] == "The script failed with FileNotFoundError at train.py:6 (main)"


@pytest.mark.parametrize(
    ("environment", "seen"), [({}, True), ({"GPUTOP_LAUNCH_ID": "launch-1"}, False)], ids=["bare", "gputop run"]
)
def test_the_doctor_names_why_a_script_failed_at_once(
    sampler: Sampler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    seen: bool,
) -> None:
    monkeypatch.setattr(unlisted, "TRAINING_AGE_S", 600.0)  # a crowded machine makes the process old before it is seen
    monkeypatch.setattr(unlisted, "YOUNG_MAX", 64)  # and starts others meanwhile
    script = tmp_path / "train.py"
    script.write_text(
        "import mmap, sys\n"
        f"file = open({Processes(tmp_path).library()!r}, 'rb')\n"
        "mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
        "sys.stderr.write(sys.stdin.read())\n"
        "sys.exit(1)\n"
    )
    with (tmp_path / "train.log").open("w") as out:
        process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            text=True,
            env={**os.environ, **environment},
        )
    eventually(lambda: (sampler.take(), procfs.read_torch_maps(process.pid))[1], lambda found: found and found.torch)
    monkeypatch.setattr(unlisted, "SCAN_S", 0.0)
    young = [(sampler.take(), sampler._host.young)[1] for _ in range(3)]
    if not seen:
        assert all(process.pid not in found for found in young)
        process.kill()
        process.communicate()
        return
    eventually(lambda: (sampler.take(), sampler._host.young)[1], lambda found: process.pid in found)
    process.communicate(RAISED)
    doctor = Doctor()
    found = eventually(lambda: told(sampler, doctor, process.pid), bool)
    assert found[0] == "The script failed with FileNotFoundError at train.py:6 (main)"
