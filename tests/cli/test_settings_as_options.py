"""What the dashboard takes from the settings file, and what the command line leaves of it."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

import pytest

from gputop import places
from gputop.agent.process import OF_THE_SCREEN
from gputop.cli.defaults import settings_of, take_machines
from gputop.cli.main import main
from gputop.cli.parser import build_parser, parse
from gputop.cli.settings_page import NO_SETTINGS, PAGE, page
from gputop.errors import UsageError
from gputop.settings.checks import _CHECKS
from gputop.settings.file import read_settings
from gputop.settings.table import SETTINGS
from gputop.settings.values import Settings
from tests import REPOSITORY
from tests.hosts.machines.sshd import gputop_there
from tests.terminal import Terminal

GPUTOP = (sys.executable, "-m", "gputop")
HERE = "env GPUTOP_TEST_HOST={host}"


def write(text: str) -> Path:
    path = places.config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def chosen(*words: str) -> tuple[Settings, dict[str, object]]:
    """Return the settings of a command line, and the options that name and reach machines."""
    options = parse(words)
    settings = settings_of(options)
    take_machines(options, settings)
    names = ("host", "hosts", "slurm", "pods", "via", "remote", "prometheus", "prometheus_auth")
    return settings, {name: found for name in names if (found := getattr(options, name)) is not None}


def test_every_option_of_the_dashboard_is_a_setting_or_says_why_not() -> None:
    settings = {setting.option or name for name, setting in SETTINGS.items()} | {setting.off for setting in SETTINGS.values()}
    others = {name for names in NO_SETTINGS.values() for name in names}
    options = {action.dest for action in build_parser("")._actions if action.option_strings}
    assert options == (settings - {"-", ""}) | others
    assert not settings & others


def test_the_table_the_checks_and_the_settings_hold_the_same_names() -> None:
    assert list(SETTINGS) == [field.name for field in fields(Settings)] == list(_CHECKS)


def test_the_page_is_current() -> None:
    assert (REPOSITORY / PAGE).read_text(encoding="utf-8") == page(), f"{PAGE} is not current: run `make docs`"


def test_options_without_a_value_do_not_delay_the_sampler() -> None:
    """A sampler that is started before the command line is parsed has to know which options are the screen's."""
    parser = build_parser("")
    ask = {"--once", "--json", "--stream", "--help", "--version", "--nccl-ras", "--no-nccl-ras", "--virtual"}
    flags = {
        flag
        for action in parser._actions
        if action.nargs == 0
        for flag in action.option_strings
        if flag.startswith("--") and flag not in ask
    }
    assert flags == OF_THE_SCREEN


@pytest.mark.parametrize(
    ("setting", "words", "name", "saved", "given"),
    [
        ("interval_s = 2", "-i 500ms", "interval_s", 2.0, 0.5),
        ('gpus = ["1"]', "-g 0,2", "gpus", ("1",), ("0", "2")),
        ('gpus = ["1"]', "-g all", "gpus", ("1",), ()),
        ("virtual = 3", "--virtual 2", "virtual", 3, 2),
        ("virtual = true", "--no-virtual", "virtual", 0, None),
        ("nccl_ras = false", "--nccl-ras", "nccl_ras", False, True),
        ("nccl_ras = true", "--no-nccl-ras", "nccl_ras", True, False),
        ('theme = "light"', "--theme auto", "theme", "light", "auto"),
        ("ascii = true", "--no-ascii", "ascii", True, False),
        ("color = false", "--color", "color", False, True),
        ("mouse = false", "--mouse", "mouse", False, True),
        ("readonly = true", "--no-readonly", "readonly", True, False),
    ],
)
def test_the_command_line_wins(setting: str, words: str, name: str, saved: object, given: object) -> None:
    write(setting)
    assert getattr(chosen()[0], name) == saved
    assert getattr(chosen(*words.split())[0], name) == given


@pytest.mark.parametrize(
    ("setting", "machines"),
    [
        ('host = "a,n[1-2]"', {"host": "a,n[1-2]"}),
        ('host = ["a", "me@b"]', {"host": "a,me@b"}),
        ('host = "a"\nvia = "env {host}"\nremote = "/opt/gputop"', {"host": "a", "via": "env {host}", "remote": "/opt/gputop"}),
        ("slurm = 4242", {"slurm": "4242"}),
        ('slurm = "4242_1"\nvia = "env {host}"', {"slurm": "4242_1"}),
        ('pods = "app=train"\nremote = "g"', {"pods": "app=train", "remote": "g"}),
        ('prometheus = "http://prom:9090"\nremote = "g"', {"prometheus": "http://prom:9090"}),
        ('via = "env {host}"', {}),
    ],
)
def test_settings_name_machines(setting: str, machines: dict[str, object]) -> None:
    write(setting)
    assert read_settings().problems == ()
    assert chosen()[1] == machines
    assert chosen("--no-host")[1] == {}


def test_files_that_settings_name_are_beside_them() -> None:
    folder = write('hosts = "lab.txt"\nprometheus = "http://p"\nprometheus_auth = "~/secret"').parent
    (folder / "lab.txt").write_text("a\nb\n")
    (Path.home() / "secret").write_text("me:word")
    assert chosen()[1] == {
        "hosts": folder / "lab.txt",
        "prometheus": "http://p",
        "prometheus_auth": Path.home() / "secret",
    }


def test_machines_on_the_command_line_replace_those_of_the_settings() -> None:
    write('host = "a"\nvia = "env {host}"\nprometheus = "http://prom:9090"\nprometheus_auth = "secret"')
    (places.config_path().parent / "secret").write_text("me:word")
    assert chosen("-H", "b")[1] == {"host": "b", "via": "env {host}"}
    assert chosen("-H", "b", "--via", "sh {host}")[1] == {"host": "b", "via": "sh {host}"}
    assert chosen("--slurm", "1")[1] == {"slurm": "1"}
    assert chosen("--prometheus", "http://other")[1] == {"prometheus": "http://other"}, "the password is another server's"
    with pytest.raises(UsageError, match="--no-host shows this machine"):
        chosen("--no-host", "-H", "b")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('host = "a b"', "line 2: host must be a list of hosts, such as"),
        ("host = 1", 'line 2: host must be a list of hosts, such as "a,me@b,n[1-8]", not 1.'),
        ('hosts = "nowhere"', "line 2: hosts must be the path of a file with one host or list per line: "),
        ('slurm = "mine"', "line 2: slurm must be the id of a Slurm job: 'mine' is not"),
        ('pods = ""', "line 2: pods must be labels of pods"),
        ('via = "ssh"', "line 2: via must be a command of this machine with {host} in it: "),
        ('via = "no-such-command {host}"', "There is no command 'no-such-command' here."),
        ('remote = "a\\nb"', "line 2: remote must be a command in one line"),
        (
            'prometheus = "me:secret@prom"',
            'line 2: prometheus must be the URL of a Prometheus server, such as "http://prom:9090"',
        ),
        ('prometheus_auth = "nowhere"', "line 2: prometheus_auth must be the path of a file with user:password"),
        ("virtual = 0", "line 2: virtual must be true, false, or a number of GPUs from 1, not 0."),
        ("mouse = 1", "line 2: mouse must be true or false, not 1."),
        ("nccl-ras = true", "line 2: 'nccl-ras' is not a gputop setting; nccl_ras is."),
        ("[host]\na = 1", "line 2: host must be a list of hosts"),
        ('host = "a"\nslurm = 1', "line 3: slurm cannot be combined with host."),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_its_line(line: str, says: str) -> None:
    path = write(f"# a comment\n{line}\n")
    (problem,) = read_settings().problems
    assert problem.message.startswith(f"{path}, line ")
    assert says in problem.message
    assert "secret" not in problem.message


def test_a_key_in_a_text_of_several_lines_is_not_taken_for_a_setting() -> None:
    write('gpus = ["""\nascii = 2\n"""]\nascii = 3\n')
    assert "line 4: ascii must be true or false, not 3." in read_settings().problems[0].message


def test_commands_do_not_follow_machines_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """Their output would depend on a person's settings, and a host that is watched would watch others."""
    write('host = "a,b"\nvirtual = 5\nvia = "env {host}"\n')
    assert main(["--once", "--json", "--virtual", "1"]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("VIRTUAL-") >= 1
    assert printed.out.startswith("{")
    assert printed.err == ""


@pytest.mark.parametrize("words", ["--stream -n 1 --virtual 1", "pick --index", "doctor --before"])
def test_commands_say_what_is_wrong_with_the_file(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = write('host = "a b"\n')
    main(words.split())
    assert f"gputop: {path}, line 1: host must be a list of hosts" in capsys.readouterr().err


def test_the_dashboard_shows_the_host_of_the_settings(tmp_path: Path) -> None:
    write(f'host = "far"\nvia = "{HERE}"\nremote = "{gputop_there(tmp_path / "there")}"\n')
    with Terminal([*GPUTOP, "--virtual", "1"], columns=100, rows=30) as terminal:
        terminal.wait_for("far")
        terminal.press("q")
        assert terminal.wait_exit() == 0


def test_hosts_that_cannot_be_found_leave_this_machine_and_the_reason(tmp_path: Path) -> None:
    """A Slurm job in the settings ends sooner or later; gputop must still start."""
    path = write("virtual = 1\nslurm = 4242\n")
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\n")
    squeue.chmod(0o755)
    with Terminal(GPUTOP, {"PATH": f"{tmp_path}:/usr/bin:/bin"}, columns=160, rows=30) as terminal:
        terminal.wait_for("Slurm job 4242 has ended")
        shown = " ".join(terminal.text().replace("▌", "").split())  # where it is wrapped depends on the path
        assert "This machine is shown." in shown
        assert f"{path.name}, line 2: slurm" in shown.replace(" ", "") or "line 2: slurm" in shown
        terminal.press("q")
        assert terminal.wait_exit() == 0
