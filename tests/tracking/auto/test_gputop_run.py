"""``gputop run`` leaves a command as it is: environment, sitecustomize, exit code, signals, streams. No torch needed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gputop.errors import UsageError
from gputop.recipes import run_command
from tests.packages import needs
from tests.tracking.kit import Home, clean_environment, home

assert home

RUN = (sys.executable, "-m", "gputop", "run")
LOOK = """
import os, sys
print(sys.argv[1:], [entry for entry in sys.path if entry], os.environ.get("GPUTOP_NAME"), os.environ.get("MARK"))
print("sitecustomize" in sys.modules, [name for name in sys.modules if "gputop" in name], os.getpid() == os.getpgrp())
"""


def run(home: Home, command: Sequence[str], stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(command),
        env={**clean_environment(home.state), **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=180,
        start_new_session=True,
        check=False,
    )


def theirs(home: Home, source: str) -> Path:
    """A directory with a sitecustomize of the user's own."""
    directory = home.state / "theirs"
    directory.mkdir(parents=True)
    (directory / "sitecustomize.py").write_text(source)
    return directory


def same(home: Home, *command: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command without and with gputop run: the same exit code, stdout and stderr."""
    plain = run(home, command, stdin, **environment)
    if "PYTHONPATH" in environment:
        # gputop is a Python too, and would run the user's sitecustomize for itself: start what it would become.
        armed = run_command.environment(environment, None, None)
        tracked = run(home, command, stdin, **armed)
    else:
        tracked = run(home, (*RUN, "--", *command), stdin, **environment)
    assert (tracked.returncode, tracked.stdout, tracked.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert not home.archives()
    return tracked


def test_a_python_finds_itself_as_without_gputop(home: Home) -> None:
    path = home.state / "look.py"
    home.state.mkdir()
    path.write_text(LOOK)
    done = same(home, sys.executable, str(path), "--name", "x", "--", "y")
    assert done.returncode == 0
    assert "['--name', 'x', '--', 'y']" in done.stdout
    assert done.stdout.splitlines()[1].endswith("True")


def test_the_user_s_sitecustomize_runs_alone(home: Home) -> None:
    directory = theirs(home, "import os, sys\nos.environ['MARK'] = __file__\nprint('theirs', __name__, len(sys.path))\n")
    path = directory / "look.py"
    path.write_text(LOOK)
    done = same(home, sys.executable, str(path), PYTHONPATH=str(directory))
    assert done.stdout.startswith("theirs sitecustomize ")
    assert str(directory / "sitecustomize.py") in done.stdout


@pytest.mark.parametrize("source", ["1/0", "raise ImportError('mine')", "import no_such_module"])
def test_errors_of_the_user_s_sitecustomize_are_shown_as_without_gputop(home: Home, source: str) -> None:
    done = same(home, sys.executable, "-c", "print('on')", PYTHONPATH=str(theirs(home, source)))
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert "Error in sitecustomize" in done.stderr


@pytest.mark.parametrize("theirs", [":/a", "/a:", "/a::/b"])
def test_an_empty_entry_of_pythonpath_stays_the_working_directory(home: Home, theirs: str) -> None:
    same(home, sys.executable, "-c", "import sys; print(sys.path)", PYTHONPATH=theirs)


def test_a_second_python_is_armed_too_and_sees_pythonpath_with_one_entry_more(home: Home) -> None:
    code = "import os, subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    inner = "import os, sys; print(os.environ['PYTHONPATH'].split(':')); print(type(sys.meta_path[0]).__name__)"
    done = run(
        home, (*RUN, "--", sys.executable, "-c", code, inner), PYTHONPATH="/mine:/other:" + str(run_command.SITE.parents[2])
    )
    entries = [str(run_command.SITE), "/mine", "/other", str(run_command.SITE.parents[2])]
    assert done.stdout == f"{entries}\nTorchFinder\n", done.stderr


def test_an_interpreter_without_gputop_is_armed_too(home: Home, tmp_path: Path) -> None:
    # A stand-in for torch in an isolated Python: the code that runs at its import must work without gputop.
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import sys\nloaded_before = [n for n in sys.modules if 'gputop' in n]\n")
    code = (
        "import torch, sys, inspect; print(torch.loaded_before, 'gputop.tracking.auto.install' in sys.modules,"
        " sys.modules['gputop'].__file__, vars(torch.__loader__).get('exec_module'),"
        " 'loaded_before' in inspect.getsource(torch))"
    )
    environment = run_command.environment({"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}, None, None)
    environment |= {"GPUTOP_DIR": str(home.state), "GPUTOP_SILENT": "1"}
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    if not base.exists():
        pytest.skip("no Python of this version outside of the virtual environment")
    done = subprocess.run([str(base), "-c", code], env=environment, capture_output=True, text=True, check=False)
    root = run_command.SITE.parents[2]
    assert done.stdout == f"[] True {root / 'gputop' / '__init__.py'} None True\n", done.stderr


def test_exit_codes(home: Home) -> None:
    assert same(home, sys.executable, "-c", "raise SystemExit(3)").returncode == 3
    assert same(home, "sh", "-c", "echo out; echo err >&2; exit 7").returncode == 7


def test_stdin_is_the_command_s(home: Home) -> None:
    assert same(home, sys.executable, "-c", "print(input() + '!')", stdin="hello\n").stdout == "hello!\n"
    assert same(home, "cat", stdin="a\nb\n").stdout == "a\nb\n"


def test_a_signal_ends_it(home: Home) -> None:
    assert same(home, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    code = "import time; print('ready', flush=True); time.sleep(60)"
    process = home.start("", command=(*RUN, "--", sys.executable, "-c", code))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")


def test_a_closed_pipe_ends_it(home: Home) -> None:
    line = f"{shlex.quote(sys.executable)} -m gputop run -- yes | head -1"
    done = run(home, ("bash", "-c", line + "; echo ${PIPESTATUS[0]}"))
    assert (done.stdout, done.stderr) == (f"y\n{128 + signal.SIGPIPE}\n", "")


def test_the_terminal_is_the_command_s(home: Home) -> None:
    master, slave = os.openpty()
    process = subprocess.Popen(
        [*RUN, "--", sys.executable, "-c", "import os; print([os.isatty(n) for n in range(3)])"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=clean_environment(home.state, GPUTOP_SILENT="1"),
    )
    os.close(slave)
    assert process.wait(timeout=180) == 0
    assert os.read(master, 1000) == b"[True, True, True]\r\n"
    os.close(master)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["no-such-command"], 127, "command not found"),
        (["no-such.py"], 127, "python SCRIPT"),
        (["/"], 126, "ermission"),
        ([], 2, "no command"),
        (["--nonsense", "x"], 2, "--nonsense"),
    ],
)
def test_a_command_that_cannot_start_is_reported(home: Home, command: list[str], code: int, words: str) -> None:
    done = run(home, (*RUN, *command))
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("flags", [("-I",), ("-uE",), ("-X", "utf8", "-W", "ignore", "-Bs", "-S")])
def test_a_python_that_ignores_its_environment_is_reported_as_untracked(home: Home, flags: tuple[str, ...]) -> None:
    done = run(home, (*RUN, "--", sys.executable, *flags, "-c", "print(1)"))
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert len(done.stderr.splitlines()) == 1
    assert f"with {flags[-1]}, Python does not start gputop" in done.stderr
    assert not run(home, (*RUN, "--", sys.executable, *flags, "-c", "1"), GPUTOP_SILENT="1").stderr


def test_flags_behind_the_script_are_the_script_s(home: Home) -> None:
    (home.state / "train.py").parent.mkdir(parents=True)
    (home.state / "train.py").write_text("")
    python = sys.executable
    for command in (
        [python, "-c", "1", "-I"],
        [python, "-u", str(home.state / "train.py"), "-E"],
        ["sh", "-c", "true", "-I"],
        [python, "-Wignore::ImportWarning", "-c", "1"],
    ):
        assert run(home, (*RUN, "--", *command)).stderr == ""


def test_arguments_are_split_at_the_first_double_dash() -> None:
    assert run_command.split(["--name", "a", "--", "python", "--", "x"]) == (["--name", "a"], ["python", "--", "x"])
    assert run_command.split(["--name=a", "python", "x.py", "--name", "b"]) == (["--name=a"], ["python", "x.py", "--name", "b"])
    assert run_command.split([]) == ([], [])
    with pytest.raises(UsageError):
        run_command.run([])


def test_the_environment_of_a_command() -> None:
    site = str(run_command.SITE)
    found = run_command.environment({"PYTHONPATH": f"{site}:/a", "X": "1"}, "n", "p")
    assert found.pop("GPUTOP_LAUNCH_ID")
    named = {"GPUTOP_NAME": "n", "GPUTOP_NAME_WINS": "1", "GPUTOP_PROJECT": "p", "GPUTOP_PROJECT_WINS": "1"}
    assert found == {"PYTHONPATH": f"{site}:/a", "X": "1", "GPUTOP_AUTO": "1", **named}
    assert run_command.environment({"PYTHONPATH": ""}, None, None)["PYTHONPATH"] == site
    assert run_command.environment({"PYTHONPATH": site}, None, None)["PYTHONPATH"] == site
    for theirs in (":/a", "/a:", "/a::/b"):
        assert run_command.environment({"PYTHONPATH": theirs}, None, None)["PYTHONPATH"] == f"{site}:{theirs}"
    assert run_command.environment({"GPUTOP": "0", "X": "1"}, "n", None) == {"GPUTOP": "0", "X": "1"}


def test_the_name_of_the_command_line_wins_and_says_so(home: Home) -> None:
    script = "import gputop; gputop.init(name='theirs', project='theirs').log(loss=1.0); gputop.finish()"
    done = run(home, (*RUN, "--name", "mine", "--", sys.executable, "-c", script))
    assert "the name of the run is 'mine', as the command line says; the script says 'theirs'." in done.stderr
    assert (home.only_run().name, home.only_run().project) == ("mine", "theirs")


def test_a_name_in_the_environment_is_only_a_default(home: Home) -> None:
    script = "import gputop; gputop.init(name='theirs').log(loss=1.0); gputop.finish()"
    done = run(home, (*RUN, "--", sys.executable, "-c", script), GPUTOP_NAME="mine")
    assert done.stderr == ""
    assert home.only_run().name == "theirs"


FAILING = """
import sys, torch
{before}
model = torch.nn.Linear(2, 1)
raise RuntimeError("the weights do not fit")
"""


@needs("torch")
@pytest.mark.warm
def test_a_training_that_fails_before_its_first_step_is_a_run(home: Home) -> None:
    script = home.state / "early.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(FAILING.format(before=""))
    done = home.finish((*RUN, "--name", "mine", "--", sys.executable, str(script), "--layers", "3"), home.state)
    plain = home.finish((sys.executable, str(script), "--layers", "3"), home.state)
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)
    found = home.only_run()
    (rank,) = found.ranks
    assert (found.name, found.state, rank.exit_code, rank.step) == ("mine", "failed", 1, None)
    assert found.command is not None
    assert found.command[-2:] == ("--layers", "3")
    assert rank.facts["error"] == {"type": "RuntimeError", "message": "the weights do not fit", "where": "early.py:5"}


@needs("torch")
@pytest.mark.warm
@pytest.mark.parametrize(
    ("before", "code"),
    [("sys.exit()", 0), ("raise KeyboardInterrupt", -signal.SIGINT), ("import gputop; gputop.init(mode='disabled')", 1)],
)
def test_a_deliberate_exit_before_the_first_step_is_not_a_run(home: Home, before: str, code: int) -> None:
    assert home.run(FAILING.format(before=before), command=(*RUN, "--", sys.executable))[0] == code
    assert not home.archives()
