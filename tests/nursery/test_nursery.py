"""A fork of the nursery cannot be told from a Python that has just started, by what a training or gputop asks."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.nursery import Nursery, fits, nursery
from tests.packages import needs
from tests.tracking.kit import Home, home

assert home
RUN = (sys.executable, "-m", "gputop", "run", "--name", "mine", "--")
LOOK = """
import atexit, json, os, signal, sys, threading

OWN = ("gputop", "torch", "sitecustomize", "program")
names = [name for name in vars() if not name.startswith("__")]
print(json.dumps({
    "main": [__name__, __file__, str(__spec__), names],
    "arguments": [sys.argv, sys.orig_argv, str(sys.flags), os.getcwd(), os.getpid() == os.getsid(0)],
    "path": sys.path,
    "environment": {name: value for name, value in os.environ.items() if name not in ("GPUTOP_LAUNCH_ID", "LC_CTYPE")},
    "modules": sorted({name for name in sys.modules if name in OWN or name.startswith("_gputop")}),
    "finders": [type(finder).__name__ for finder in sys.meta_path if type(finder).__name__ != "Loaded"],
    "threads": threading.active_count(),
    "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)],
    "streams": [sys.stdin.isatty(), input(), input(), sys.stdout.encoding, sys.stdout.write_through, sys.stderr.errors],
    "descriptors": [number for number in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{number}")],
}))
atexit.register(print, "at exit")
threading.Thread(target=lambda: (threading.main_thread().join(), print("a thread that outlives the script"))).start()
print("said", file=sys.stderr)
LAST
"""
ENDS = ("pass", "raise SystemExit(3)", "sys.exit('a text')", "os.kill(os.getpid(), 15)", "os._exit(7)")


def ended(home: Home, command: Sequence[str], place: Path, warm: bool) -> tuple[Any, ...]:
    """Run a command that reads two lines; return how it ended, what it found, and what else it printed."""
    home.warm = warm
    process = home.open(command, place)
    out, err = process.communicate("one\ntwo\n", timeout=90)
    first, *more = out.splitlines()
    return process.returncode, json.loads(first), more, err


@needs("torch")
@pytest.mark.parametrize("tracked", [False, True], ids=["plain", "gputop run"])
@pytest.mark.parametrize("last", ENDS)
def test_a_fork_is_a_start(home: Home, tmp_path: Path, last: str, tracked: bool) -> None:
    place = tmp_path / "with a space and é"
    place.mkdir()
    (place / "look.py").write_text(LOOK.replace("LAST", last))
    command = (*(RUN if tracked else ()), sys.executable, "look.py", "--flag", "a word")
    forked, started = (ended(home, command, place, warm) for warm in (True, False))
    for name, found in started[1].items():
        assert forked[1][name] == found, name
    assert forked == started


def test_torch_is_imported_past_import_hooks_and_is_whole(home: Home) -> None:
    torch = pytest.importorskip("torch")
    home.warm = True
    code, out, _ = home.run(
        """
import sys
assert "torch" not in sys.modules
import torch.nn.functional as functional, torch, importlib.util
assert torch.nn.functional is functional and sys.modules["torch"] is torch
assert torch.__spec__ is importlib.util.find_spec("torch") and torch.__spec__.origin == torch.__file__
print(torch.__version__, hasattr(torch.autograd.backward, "__wrapped__"), torch.get_num_threads())
""",
        command=(*RUN, sys.executable),
        OMP_NUM_THREADS="1",
    )
    assert (code, out) == (0, f"{torch.__version__} True 1\n")


@needs("torch")
def test_a_fork_can_be_signalled_and_is_waited_for(home: Home) -> None:
    home.warm = True
    process = home.start("import time; print('up', flush=True); time.sleep(300)")
    assert process.stdout.readline() == "up\n"
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert process.returncode == -signal.SIGINT
    assert err.endswith("KeyboardInterrupt\n")


@needs("torch")
def test_all_test_processes_share_one_nursery_which_outlives_the_first_that_leaves(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text("import os; print(os.getppid())")
    other = Nursery()
    forks = [each.start([sys.executable, str(script)], tmp_path, {}) for each in (nursery(), other)]
    assert len({fork.communicate(timeout=90) for fork in forks}) == 1
    other.close()
    assert not other.is_alive()
    assert nursery().start([sys.executable, str(script)], tmp_path, {}).wait(90) == 0


def test_only_a_plain_script_is_forked() -> None:
    assert fits((sys.executable, "train.py", "-E"), {})
    assert fits((*RUN, sys.executable, "train.py"), {"PYTHONPATH": "/x"})
    for words in (
        (sys.executable, "-m", "train"),
        (sys.executable, "-u", "train.py"),
        (sys.executable,),
        ("sh", "train.py"),
        (sys.executable, "-m", "gputop", "runs", "train.py"),
    ):
        assert not fits(words, {}), words
    assert not fits((sys.executable, "train.py"), {"PYTHONHASHSEED": "7"})
