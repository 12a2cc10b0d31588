"""The scripts, run by the shells themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.cli.completion import names, walk
from gputop.cli.parser import build_parser
from tests.tracking.kit import Home, home

assert home

SCRIPT = (sys.executable, "-m", "gputop", "completion")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the scripts, and with the command ``gputop`` that they ask."""
    place = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run([*SCRIPT, shell], capture_output=True, text=True, timeout=180, check=True)
        (place / shell).write_text(done.stdout)
    command = place / "gputop"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gputop "$@"\n')
    command.chmod(0o755)
    return place


def ask(shell: str, scripts: Path, *words: str) -> list[str]:
    """What the shell offers for the last of ``words``."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    script = shlex.quote(str(scripts / shell))
    line = " ".join(("gputop", *words))
    if shell == "fish":
        command = f"source {script}; complete -C{shlex.quote(line)}"
    else:
        listed = " ".join(map(shlex.quote, ("gputop", *words)))
        command = f"source {script}; COMP_WORDS=({listed}); COMP_CWORD={len(words)}; _gputop; "
        command += "printf '%s\\n' \"${COMPREPLY[@]}\""
    env = dict(os.environ) | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([shell, "-c", command], capture_output=True, text=True, env=env, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return [item.partition("\t")[0] for item in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_shell_completes_commands_options_and_names(shell: str, scripts: Path) -> None:
    assert {"doctor", "runs", "selftest", "completion"} <= set(ask(shell, scripts, ""))
    assert ask(shell, scripts, "doc") == ["doctor"]
    assert {"show", "rename", "export"} <= set(ask(shell, scripts, "runs", ""))
    assert set(ask(shell, scripts, "--them")) == {"--theme"}
    assert set(ask(shell, scripts, "--theme", "")) >= {"auto", "dark", "light"}
    assert "--before" in ask(shell, scripts, "doctor", "--b")
    assert "ddp" in ask(shell, scripts, "demo", "dd")
    assert "faults/dead-rank" in ask(shell, scripts, "launch", "faults/dea")
    assert "--devices" in (flags := ask(shell, scripts, "launch", "--"))
    assert "--as-node" not in flags, "gputop passes it to itself"


def test_fish_describes_what_it_offers(scripts: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed here")
    script = shlex.quote(str(scripts / "fish"))
    command = f"source {script}; complete -C'gputop doct'; complete -C'gputop runs pl'"
    done = subprocess.run(["fish", "-c", command], capture_output=True, text=True, timeout=180, check=True)
    assert "this machine: what is wrong" in done.stdout
    assert "plot a run's metrics" in done.stdout


def test_zsh_reads_the_script(scripts: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed here")
    command = f"autoload -Uz compinit && compinit -u -D; source {shlex.quote(str(scripts / 'zsh'))}; print ${{_comps[gputop]}}"
    done = subprocess.run(["zsh", "-f", "-c", command], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert "_gputop" in done.stdout


def test_every_command_of_the_parser_is_in_the_script(scripts: Path) -> None:
    tree = dict(walk(build_parser()))
    text = (scripts / "bash").read_text()
    assert len(tree) > 15
    for path, command in tree.items():
        assert f'"{path}")' in text
        assert all(flag in text for flag in command.options)
    assert "--as-node" not in tree["launch"].options


def test_names_of_runs_are_completed_as_words(home: Home) -> None:
    home.run("import gputop\nfor name in ('first', 'two words', 'a;b'): gputop.init(name=name).finish()")
    env = dict(os.environ) | {"GPUTOP_DIR": str(home.state)}
    done = subprocess.run([*SCRIPT, "--names", "runs"], capture_output=True, text=True, env=env, timeout=180, check=True)
    found = done.stdout.split("\n")
    assert "first" in found
    assert not {"two words", "two", "a;b"} & set(found)
    assert "ddp" in names("recipes")
