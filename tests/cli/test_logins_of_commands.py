"""Every command over hosts reports a login that needs an answer: where nobody can be asked, with what to do."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.hosts import logins

COMMANDS = (
    "--once",
    "--once --json",
    "--stream -n 1",
    "record {folder}/a.ndjson --for 1s",
    "doctor --for 1s",
    "where",
    "runs",
    "runs show none",
    "jobs",
    "logs none",
    "logs -f none",
    "stop none",
    "launch",
    "run",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_a_terminal_says_what_a_login_needs(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "has_terminal", lambda: False)
    monkeypatch.setenv("GPUTOP_DIR", str(tmp_path / "here"))
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'me@a: Permission denied (keyboard-interactive).' >&2\nexit 255\n")
    ssh.chmod(0o755)
    over = ["-H", "a", "--via", f"{shlex.quote(str(ssh))} {{host}}"]
    words = command.format(folder=tmp_path).split()
    code = main([*words, *over, *(["--", "true"] if command in ("launch", "run") else [])])
    said = capfd.readouterr()
    assert code != 0
    assert "such as a passphrase or a code, run gputop in a terminal, where ssh can ask: " in said.out + said.err
