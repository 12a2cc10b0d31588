"""How a run that `gputop.init` started ends: what the process's end shows, and what a script may do with sys.exit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gputop.tracking.reader.runs import RunReader
from tests.packages import needs
from tests.tracking.kit import DEADLINE_S, Home, home, read_all

assert home

pytestmark = pytest.mark.interpreter

ENDS = {
    "end": ("pass", 0, "finished", None),
    "exit": ("sys.exit()", 0, "finished", 0),
    "exit 0": ("sys.exit(0)", 0, "finished", 0),
    "exit 3": ("sys.exit(3)", 3, "failed", 3),
    "exit message": ("sys.exit('no data')", 1, "failed", 1),
    "raised": ("raise SystemExit(3)", 3, "failed", 3),
    "raised with 0": ("raise SystemExit(0)", 0, "finished", 0),
    "raised with a text": ("raise SystemExit('no data')", 1, "failed", 1),
    "raised in a function": ("\ndef main(): raise SystemExit(4)\nraise SystemExit(main())", 4, "failed", 4),
    # Before Python 3.12, this sys.exit makes no exception before somebody catches it.
    "imported before": ("leave(3)", 3, *(("failed", 3) if sys.version_info >= (3, 12) else ("finished", None))),
    "raised after others were caught": (
        "\nfor code in (5, 6):\n    try: raise SystemExit(code)\n    except SystemExit as error: kept = error\n"
        "raise SystemExit(3)",
        3,
        "failed",
        3,
    ),
    "caught": ("\ntry:\n    raise SystemExit(3)\nexcept SystemExit as error:\n    assert error.code == 3", 0, "finished", None),
    "changed": ("\nerror = SystemExit(3)\nerror.code = 4\ndel error.code\nerror.code = 7\nraise error", 7, "failed", 7),
    "error": ("raise ValueError('no')", 1, "failed", 1),
    "error that the script tells the hook of": (
        "\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    sys.excepthook(*sys.exc_info())\nrun.log(loss=1.0)",
        0,
        "finished",
        None,
    ),
    "error, and a hook of the script's own": (
        "\nhook = sys.excepthook\nsys.excepthook = lambda *error: hook(*error)\nraise ValueError('no')",
        1,
        "failed",
        1,
    ),
    "error, and a hook that calls Python's own": (
        "\nsys.excepthook = lambda *error: sys.__excepthook__(*error)\nraise ValueError('no')",
        1,
        "failed",
        1,
    ),
    "caught, and trained on": (
        "\ntry:\n    sys.exit(3)\nexcept SystemExit:\n    run.log(loss=1.0)",
        0,
        "finished",
        None,
    ),
    "of another thread": (
        "import threading; t = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join()",
        0,
        "finished",
        None,
    ),
    "os._exit 3": ("import os; os._exit(3)", 3, "failed", 3),
    "os._exit 0": ("import os; os._exit(0)", 0, "finished", 0),
    "os._exit of a forked child": ("import os\nif not os.fork():\n    os._exit(3)\nos.wait()", 0, "finished", None),
    "os._exit without the ring": ("import os; os._exit(3)", 3, "failed", 3),
    # Nobody learns how the program in its place ends.
    "os.execv": ("import os; os.execv('/bin/sh', ['sh', '-c', 'exit 3'])", 3, "finished", None),
    "os.execlpe": ("import os; os.execlpe('sh', 'sh', '-c', 'exit 3', {**os.environ})", 3, "finished", None),
    "os.execv without the ring": ("import os; os.execv('/bin/sh', ['sh', '-c', 'exit 3'])", 3, "finished", None),
    "os.execv of a forked child, then killed": (
        "import os\nif not os.fork():\n    os.execv('/bin/true', ['true'])\nos.wait(); os.kill(os.getpid(), 9)",
        -9,
        "killed",
        None,
    ),
    "os.execv of nothing, then killed": (
        "import os\ntry:\n    os.execv('/none', ['none'])\nexcept FileNotFoundError:\n    os.kill(os.getpid(), 9)",
        -9,
        "killed",
        None,
    ),
    "Ctrl-C": ("raise KeyboardInterrupt", -2, "stopped", 130),
    "argparse": ("import argparse; argparse.ArgumentParser().parse_args(['--no'])", 2, "failed", 2),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_run_ends_as_its_process_does(home: Home, end: str) -> None:
    line, code, state, recorded = ENDS[end]
    script = f"import gputop, sys\nfrom sys import exit as leave\nrun = gputop.init()\nrun.log(loss=1.0)\n{line}\n"
    assert home.run(script, GPUTOP_THREAD="0" if "without the ring" in end else "1")[0] == code
    for _ in range(2):  # the first reader moves what a process left in its ring to the archive
        rank = home.only_run().ranks[0]
        assert rank.state == state
        assert (rank.exit_code or None) == (recorded or None)
        assert rank.metrics == {"loss": 1.0}


def test_a_program_that_is_not_there_ends_no_run_of_a_child(home: Home) -> None:
    script = (
        "import gputop, os\ngputop.init(id='parent')\n"
        "if not os.fork():\n"
        "    gputop.init(id='child').log(loss=1.0)\n"
        "    try:\n        os.execv('/none', ['none'])\n"
        "    except FileNotFoundError:\n        os.kill(os.getpid(), 9)\n"
        "os.wait()\n"
    )
    assert home.run(script)[0] == 0
    reader = RunReader(home.runs)
    assert {run.run_id: run.state for run in reader.poll().runs} == {"parent": "finished", "child": "killed"}
    reader.close()


def test_execve_takes_a_descriptor_as_without_gputop(home: Home) -> None:
    script = (
        "import os\nbefore = os.execve in os.supports_fd\nimport gputop\ngputop.init()\n"
        "print(before == (os.execve in os.supports_fd))"
    )
    assert home.run(script)[1].strip() == "True"


def test_an_error_at_a_prompt_does_not_end_the_run(home: Home) -> None:
    process = home.start("import gputop\ngputop.init().log(loss=1.0)\nraise ValueError", command=(sys.executable, "-i"))
    _, err = process.communicate("1 / 0\ngputop.log(loss=2.0)\n", timeout=DEADLINE_S)
    assert "ValueError" in err
    assert "ZeroDivisionError" in err
    assert (home.only_run().state, home.only_run().ranks[0].metrics) == ("finished", {"loss": 2.0})


@pytest.mark.parametrize("way", ["-m", "-c"])
def test_the_exit_of_a_module_and_of_a_line_is_seen_too(home: Home, way: str) -> None:
    home.state.mkdir()
    script = "import gputop\ngputop.init().log(loss=1.0)\nraise SystemExit(3)\n"
    (home.state / "module.py").write_text(script)
    done = home.finish((sys.executable, way, "module" if way == "-m" else script), home.state)
    assert (done.returncode, done.stderr) == (3, "")
    assert (home.only_run().state, home.only_run().ranks[0].exit_code) == ("failed", 3)


def test_the_error_that_ended_the_script_is_recorded_with_its_line(home: Home) -> None:
    script = "import gputop, json\ngputop.init().log(loss=1.0)\ndef load():\n    json.loads('{')\nload()\n"
    code, _, err = home.run(script)
    assert code == 1
    assert "JSONDecodeError" in err
    error = home.only_run().ranks[0].facts["error"]
    assert error["type"] == "JSONDecodeError"
    assert error["where"].endswith(":4"), "the innermost line that is no library's"


ERRORS = {
    "uncaught": ("raise ValueError('no')", "ValueError"),
    "in a with": ("\nwith gputop.init() as run:\n    raise ValueError('no')", "ValueError"),
    "handled, and told": (
        "\ntry:\n    raise ValueError('no')\nexcept ValueError:\n    gputop.finish(exit_code=1)\n    sys.exit(1)",
        "ValueError",
    ),
    "handled, and well": ("\ntry:\n    raise ValueError('no')\nexcept ValueError:\n    gputop.finish()", None),
    "an exit": ("sys.exit(3)", None),
    "Ctrl-C": ("raise KeyboardInterrupt", None),
    "in a child": (
        "\ngputop.finish()\nimport multiprocessing\ndef work():\n    gputop.init().log(loss=1.0)\n    raise ValueError('no')\n"
        "child = multiprocessing.get_context('fork').Process(target=work)\nchild.start()\nchild.join()",
        "ValueError",
    ),
    "handled in a child, as torch's spawn does": (
        "\ngputop.finish()\nimport multiprocessing\ndef work():\n    gputop.init().log(loss=1.0)\n"
        "    try:\n        raise ValueError('no')\n    except Exception:\n        sys.exit(1)\n"
        "child = multiprocessing.get_context('fork').Process(target=work)\nchild.start()\nchild.join()",
        "ValueError",
    ),
}


@pytest.mark.parametrize("automatic", [False, pytest.param(True, marks=[needs("torch"), pytest.mark.warm])])
@pytest.mark.parametrize("way", ERRORS)
def test_the_error_is_recorded_once_whatever_records_the_run(home: Home, way: str, automatic: bool) -> None:
    line, kind = ERRORS[way]
    step = """
import torch
weight = torch.nn.Parameter(torch.ones(1))
for _ in range(2):
    weight.sum().backward(); torch.optim.SGD([weight], lr=0.1).step()
"""
    script = f"import gputop, sys\nrun = gputop.init()\nrun.log(loss=1.0)\n{step if automatic else ''}{line}\n"
    home.run(script, GPUTOP_AUTO="1" if automatic else "0")
    said = [value for archive in home.archives() for _, _, value in read_all(archive).events if isinstance(value, dict)]
    told = [item["value"] for item in said if item.get("name") == "error"]
    assert [value["type"] for value in told] == ([kind] if kind else [])
    assert all(value["message"] == "no" and value["where"].startswith("script0.py:") for value in told)


def test_what_a_child_was_writing_when_it_failed_is_on_disk_at_its_end(home: Home, tmp_path: Path) -> None:
    """It ends with os._exit: only Python's own release of the failed function's variables writes what a file has buffered."""
    kept = tmp_path / "kept"
    script = f"""
import gputop, multiprocessing, sys
def fails():
    file = open({str(kept)!r}, "w")
    file.write("kept")
    raise ValueError("no")
def work():
    gputop.init().log(loss=1.0)
    try:
        fails()
    except Exception:
        sys.exit(1)
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
"""
    home.run(script)
    assert kept.read_text() == "kept"


CONSOLE = """
import code, sys

class Console(code.InteractiveConsole):
    def write(self, text):
        print("console:", text)

console = Console()
console.push("1 / 0")
print(sys.excepthook is sys.__excepthook__)
"""


@pytest.mark.parametrize(
    "tracked", ["import gputop; gputop.init()", pytest.param("import torch", marks=[needs("torch"), pytest.mark.warm])]
)
def test_a_console_of_the_script_shows_its_errors_as_without_gputop(home: Home, tracked: str) -> None:
    """Python's own looks whether somebody has put a hook for errors in the place of the original."""
    command = () if "gputop" in tracked else (sys.executable, "-m", "gputop", "run", "--", sys.executable)
    plain = home.run(CONSOLE)
    assert plain[0] == 0
    assert "console: Traceback" in plain[1]
    assert home.run(f"{tracked}\n{CONSOLE}", command=command) == plain


def test_sys_exit_stays_what_scripts_know(home: Home) -> None:
    script = """
import gputop, sys, contextlib
before = sys.exit.__doc__
gputop.init(); gputop.init()
assert sys.exit.__doc__ == before
for status in (None, 0, 7, "text", (1, 2)):
    try:
        sys.exit(status)
    except SystemExit as error:
        assert type(error) is SystemExit and error.code == status, (error.code, status)
try:
    sys.exit()
except SystemExit as error:
    assert error.code is None
try:
    sys.exit(1, 2)
except TypeError:
    print("TypeError")
gputop.log(loss=1.0)
"""
    assert home.run(script) == (0, "TypeError\n", "")
