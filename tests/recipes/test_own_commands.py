"""A person's own commands: read, checked, tracked, remembered."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from gputop.errors import GputopError, UsageError
from gputop.jobs import store
from gputop.recipes import own_commands
from gputop.recipes.own_commands import OwnCommand
from tests import samples
from tests.jobs.printed import printed_lines
from tests.packages import needs
from tests.tracking.kit import Home, eventually, home

assert home


FOREIGN_UID = 12345


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUTOP_CONFIG", str(tmp_path / "config" / "config.toml"))
    return tmp_path / "config" / "commands.json"


def own(command: str, cwd: Path, **more: object) -> OwnCommand:
    return OwnCommand("mine", command, str(cwd), **more)  # type: ignore[arg-type]


def test_a_command_is_split_into_words_variables_and_the_number_of_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUTOP_AUTO", raising=False)
    (tmp_path / "train.py").touch()
    line = "LR=0.1 NOTE='a b' python train.py --nproc={gpus} --name 'x y'"
    launch = own_commands.prepare(own(line, tmp_path, environment={"KEPT": "1"}), [samples.device(2), samples.device(3)])
    assert launch.argv[1:] == ("train.py", "--nproc=2", "--name", "x y")
    assert Path(launch.argv[0]).name.startswith("python")
    assert (launch.env["LR"], launch.env["NOTE"], launch.env["KEPT"]) == ("0.1", "a b", "1")
    assert launch.env["CUDA_VISIBLE_DEVICES"] == f"{samples.device(2).uuid},{samples.device(3).uuid}"
    assert launch.env["GPUTOP_AUTO"] == "1"
    assert launch.env["PYTHONPATH"].split(os.pathsep)[0].endswith("site")
    assert launch.cwd == str(tmp_path)
    assert "HOME" not in launch.env


@pytest.mark.parametrize(
    ("words", "variables", "command"),
    [
        ("env KEY=a=b LR=1 python train.py X=2", {"KEY": "a=b", "LR": "1"}, ["python", "train.py", "X=2"]),
        ("/usr/bin/env KEY=x python", {"KEY": "x"}, ["python"]),
        ("KEY=x env python", {"KEY": "x"}, ["python"]),
        ("LR=2 env KEY=x python", {"LR": "2", "KEY": "x"}, ["python"]),
        ("env KEY=1 env KEY=2 python", {"KEY": "2"}, ["python"]),
        ("env -- KEY=x python", {"KEY": "x"}, ["python"]),
        ("env KEY=x -- python", {"KEY": "x"}, ["--", "python"]),
        ("nohup env KEY=x python", {"KEY": "x"}, ["nohup", "python"]),
        ("env LR=1 nohup env KEY=x python env A=1", {"LR": "1", "KEY": "x"}, ["nohup", "python", "env", "A=1"]),
        ("nohup env -i KEY=x python", {}, ["nohup", "env", "-i", "KEY=x", "python"]),
        ("nice -n 5 env KEY=x python", {"KEY": "x"}, ["nice", "-n", "5", "python"]),
        ("nice -n5 setsid -w env KEY=x python -n 5", {"KEY": "x"}, ["nice", "-n5", "setsid", "-w", "python", "-n", "5"]),
        ("nice --adjustment=5 -- env KEY=x python", {"KEY": "x"}, ["nice", "--adjustment=5", "--", "python"]),
        ("time -o env env KEY=x python", {"KEY": "x"}, ["time", "-o", "env", "python"]),
        ("numactl -N 0 -m 0 env KEY=x python", {"KEY": "x"}, ["numactl", "-N", "0", "-m", "0", "python"]),
        ("numactl -w 0,1 env KEY=x python", {"KEY": "x"}, ["numactl", "-w", "0,1", "python"]),
        ("numactl -P 0 env KEY=x python", {"KEY": "x"}, ["numactl", "-P", "0", "python"]),
        ("taskset 0xff env KEY=x python", {"KEY": "x"}, ["taskset", "0xff", "python"]),
        ("taskset -c 0-7 env KEY=x python", {"KEY": "x"}, ["taskset", "-c", "0-7", "python"]),
        ("chrt -b 0 nice env KEY=x python", {"KEY": "x"}, ["chrt", "-b", "0", "nice", "python"]),
        ("chrt -d -T 5 -- 0 env KEY=x python", {"KEY": "x"}, ["chrt", "-d", "-T", "5", "--", "0", "python"]),
        ("taskset", {}, ["taskset"]),
        ("nice -n 5", {}, ["nice", "-n", "5"]),
        ("nice -n", {}, ["nice", "-n"]),
        ("env -i KEY=x python", {}, ["env", "-i", "KEY=x", "python"]),
        ("env a.b=1 python", {}, ["env", "a.b=1", "python"]),
        ("env -u LR KEY=x python", {}, ["env", "-u", "LR", "KEY=x", "python"]),
        ("env KEY=x env -u LR python", {"KEY": "x"}, ["env", "-u", "LR", "python"]),
        ("env KEY=x", {"KEY": "x"}, []),
        ("env", {}, ["env"]),
        ("python KEY=x", {}, ["python", "KEY=x"]),
    ],
)
def test_variables_after_env_are_not_words_of_the_command(words: str, variables: dict[str, str], command: list[str]) -> None:
    assert own_commands.apart(words.split()) == (variables, command)


def test_a_script_alone_is_run_by_this_python(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert own_commands.prepare(own("train.py --lr 1", tmp_path), ()).argv == (sys.executable, "-u", "train.py", "--lr", "1")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "no command"),
        ("A=1", "no command"),
        ("python 'train.py", "cannot be read"),
        ("python train.py | tee log", "needs a shell"),
        ("no-such-program x", "is not found"),
        ("./missing", "is not a program"),
        ("python missing.py", "There is no missing.py"),
    ],
)
def test_a_command_that_cannot_start_is_reported_in_a_sentence(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as told:
        own_commands.prepare(own(line, tmp_path), ())
    assert told.value.hint


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        own_commands.prepare(own("true", tmp_path / "gone"), ())


def test_variables_are_pairs() -> None:
    assert own_commands.variables_of("A=1 B='x y' C=") == {"A": "1", "B": "x y", "C": ""}
    with pytest.raises(UsageError, match="not a variable"):
        own_commands.variables_of("A=1 nonsense")


def test_commands_are_remembered_the_last_first(tmp_path: Path, config: Path) -> None:
    assert own_commands.load() == ()
    first = OwnCommand("first", "python a.py", "/tmp", {"A": "1"}, 2)
    own_commands.remember(first)
    own_commands.remember(OwnCommand("second", "python b.py", "/tmp"))
    assert [item.name for item in own_commands.load()] == ["second", "first"]
    own_commands.remember(first)
    assert own_commands.load()[0] == first
    assert config.stat().st_mode & 0o777 == 0o600
    own_commands.forget("second")
    assert own_commands.load() == (first,)
    with pytest.raises(UsageError):
        own_commands.forget("second")


@pytest.mark.parametrize("text", ["{", "[]", '{"commands": [{"name": 1}]}', '{"commands": 3}'])
def test_a_file_that_is_not_ours_is_never_written_over(config: Path, text: str) -> None:
    config.parent.mkdir()
    config.write_text(text)
    assert own_commands.load() == ()
    with pytest.raises(GputopError):
        own_commands.remember(OwnCommand("x", "true", "/"))
    assert config.read_text() == text


@needs("torch")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_commands_that_another_user_may_have_written_are_not_offered(tmp_path: Path, config: Path) -> None:
    own_commands.remember(own("true", tmp_path))
    assert own_commands.load()
    os.chown(config, FOREIGN_UID, -1)
    assert not own_commands.load()
    with pytest.raises(GputopError, match="another user can write it"):
        own_commands.remember(own("false", tmp_path))
    os.chown(config, 0, -1)
    os.chown(config.parent, FOREIGN_UID, -1)
    assert not own_commands.load()
    with pytest.raises(GputopError, match=r"belongs to another user.*GPUTOP_CONFIG"):
        own_commands.remember(own("false", tmp_path))
    assert os.listdir(config.parent) == [config.name]


def test_it_runs_as_a_job_and_is_tracked(home: Home, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "w = torch.nn.Linear(2, 1)\n"
        "o = torch.optim.SGD(w.parameters(), lr=0.1)\n"
        "for _ in range(7):\n"
        "    loss = w(torch.ones(4, 2)).square().mean(); loss.backward(); o.step(); o.zero_grad()\n"
    )
    job = store.start(own_commands.prepare(own(f"{shlex.quote(sys.executable)} train.py", tmp_path), ()))
    ended = eventually(lambda: found if not (found := store.find(job.id)).active else None, "the job ends")
    assert ended.state == "finished", printed_lines(job.id)
    run = home.only_run()
    assert (run.run_id, run.name, run.ranks[0].step) == (job.id, "mine", 6)
