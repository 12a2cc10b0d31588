"""A training that ends with an error before its first step was seen is a run, with its last words. No torch."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gputop.tracking.reader.runs import RunReader
from tests import REPOSITORY
from tests.tracking.kit import Home, clean_environment, home

assert home
pytestmark = pytest.mark.interpreter

ARMED = "import sys\nfrom gputop.tracking import early_failure\nearly_failure.record(lambda: False)\n"
PARSER = "import argparse\np = argparse.ArgumentParser('fit.py')\np.add_argument('--data', required=True)\n"
REFUSES, HELP = f"{PARSER}p.parse_args([])", f"{PARSER}p.parse_args(['--help'])"
MISTAKES = f"{PARSER}p.add_argument('--lr', type=float)\np.parse_args(['--lr', 'x'])"
GIVES_UP = "try:\n    {}['shards']\nexcept KeyError:\n    sys.exit(1)"
CHILD = "import os\npid = os.fork()\nif not pid:\n    sys.exit(4)\nos.waitpid(pid, 0)"


def ended(home: Home, name: str, lines: str, file: str = "", as_module: bool = False) -> int:
    """Run a script of these lines as ``gputop run`` would; return its exit code."""
    script = home.state / (file or f"{name}.py")
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(ARMED + lines)
    path = f"{REPOSITORY}{os.pathsep}{home.state}"
    environment = {**clean_environment(home.state), "GPUTOP_LAUNCH_ID": f"launch-{name}", "PYTHONPATH": path}
    command = [sys.executable, *(["-m", script.stem] if as_module else [str(script)])]
    return subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False).returncode


def test_an_exit_with_an_error_is_a_run_with_its_message(home: Home) -> None:
    cases = {
        "missing": (REFUSES, 2, "SystemExit", "fit.py: error: the following arguments are required: --data"),
        "usage": (MISTAKES, 2, "SystemExit", "fit.py: error: argument --lr: invalid float value: 'x'"),
        "code": ("sys.exit(3)", 3, "SystemExit", "exit code 3"),
        "text": ("raise SystemExit('no shards in /data')", 1, "SystemExit", "no shards in /data"),
        "handled": (GIVES_UP, 1, "KeyError", "'shards'"),
    }
    for name, (lines, code, *_) in cases.items():
        assert ended(home, name, lines, as_module=name == "code") == code
    reader = RunReader(home.runs)
    try:
        found = {run.name: run for run in reader.poll().runs}
    finally:
        reader.close()
    assert found.keys() == cases.keys()
    for name, (_, code, kind, message) in cases.items():
        (rank,) = found[name].ranks
        assert (found[name].state, rank.exit_code, rank.step) == ("failed", code, None)
        assert rank.facts["error"]["type"] == kind
        # Python 3.10 does not say which program a mistake is about.
        assert rank.facts["error"]["message"] in (message, message.removeprefix("fit.py: "))


def test_an_exit_without_an_error_or_of_another_program_is_not_a_run(home: Home) -> None:
    """Also one by a signal's number, by the user, of a child, and of a launcher that passes on the code of its ranks."""
    for number, lines in enumerate(("sys.exit()", "sys.exit(143)", "raise KeyboardInterrupt", HELP, CHILD)):
        ended(home, f"case{number}", lines)
    assert ended(home, "launcher", "sys.exit(1)", file="bin/fitrun") == 1
    assert not home.archives()


def test_an_exit_over_an_exception_after_steps_keeps_the_exception(home: Home) -> None:
    """As hydra and many scripts end: they print the traceback and exit."""
    lines = "import gputop\ngputop.init()\ngputop.log(loss=1.0)\n" + GIVES_UP
    assert ended(home, "late", lines) == 1
    (rank,) = home.only_run().ranks
    assert (rank.exit_code, rank.facts["error"]["type"]) == (1, "KeyError")
