"""torchruns that wait for other nodes: real ones, and what their commands say."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.process import WaitingLauncher
from gputop.sources.host import rendezvous
from gputop.sources.host.accelerate_config import config_path, entries_of
from gputop.sources.host.launchers_of_others import LaunchersOfOthers
from gputop.sources.host.process_cache import ProcessCache
from gputop.sources.host.rendezvous import WaitingLaunchers, read_launcher
from tests.hosts.machines.sshd import free_port
from tests.tracking.kit import eventually

START_S = 180.0
"""torchrun imports torch."""


@pytest.mark.parametrize(
    ("words", "environment", "found"),
    [
        (["torchrun", "--nnodes=2", "--rdzv-endpoint", "gpu1:29500", "t.py"], {}, (2, "gpu1:29500", None, "t.py")),
        (["python", "/usr/bin/torchrun", "--nnodes", "4", "--rdzv_id=7", "d/t.py", "x"], {}, (4, None, "7", "t.py")),
        (["python", "-m", "torch.distributed.run", "--nnodes=2:4", "-m", "a.b", "x"], {}, (2, None, None, "a.b")),
        (["torchrun", "--nnodes=2", "--master_addr=n1", "t.py"], {}, (2, "n1:29500", None, "t.py")),
        (["torchrun", "t.py"], {"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "n1:1", "PET_RDZV_ID": "9"}, (2, "n1:1", "9", "t.py")),
        (["torchrun", "--nnodes=1", "t.py"], {"PET_NNODES": "2"}, None),
        (["torchrun", "--nnodes=1:4", "t.py"], {}, None),
        (["torchrun", "--nproc-per-node", "2", "t.py", "--nnodes", "2"], {}, None),
        (["torchrun", "--standalone", "--nnodes=2", "t.py"], {}, None),
        (["torchrun", "--nnodes=x", "t.py"], {}, None),
        (["torchrun", "--nnodes"], {}, None),
        (["python", "train.py", "--nnodes=2"], {}, None),
        (
            ["python", "/usr/bin/accelerate", "launch", "--multi_gpu", "--num_machines=2", "--main_process_ip", "n1", "t.py"],
            {},
            (2, "n1:29500", None, "t.py"),
        ),
        (
            ["accelerate-launch", "--num-machines", "3", "--main_process_port=7", "--main_process_ip=n1", "-m", "a.b", "-q"],
            {},
            (3, "n1:7", None, "a.b"),
        ),
        (
            ["python", "-m", "accelerate.commands.launch", "--num_machines=2", "--same_network", "t.py"],
            {},
            (2, None, None, "t.py"),
        ),
        (["accelerate", "launch", "--num_processes", "2", "t.py", "--num_machines=2"], {}, None),
        (["accelerate", "launch", "t.py"], {"PET_NNODES": "2"}, None),
        (["accelerate", "launch"], {}, None),
        (["accelerate", "config", "--num_machines=2", "t.py"], {}, None),
    ],
)
def test_what_a_command_says_about_its_nodes(
    words: list[str], environment: dict[str, str], found: tuple[object, ...] | None
) -> None:
    read = read_launcher(1, words, environment, None)
    assert (read and (read.nodes, read.meets_at, read.rendezvous_id, read.name)) == found


CONFIG = """\
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: MULTI_GPU
fsdp_config:
  num_machines: 9
machine_rank: 0
main_process_ip: 'gpu1' # the first
main_process_port: 29501
num_machines: 2
num_processes: 16
same_network: null
"""


def test_a_configuration_of_accelerate_says_what_the_command_does_not() -> None:
    config = entries_of(CONFIG.encode(), is_json=False)
    assert config == entries_of(
        json.dumps({**config, "same_network": None, "fsdp_config": {"num_machines": 9}}).encode(), is_json=True
    )
    found = read_launcher(1, ["accelerate", "launch", "t.py"], {}, None, config)
    assert found is not None
    assert (found.nodes, found.meets_at, found.launcher) == (2, "gpu1:29501", "accelerate")
    found = read_launcher(1, ["accelerate", "launch", "--num_machines=3", "--main_process_ip=n7", "t.py"], {}, None, config)
    assert found is not None
    assert (found.nodes, found.meets_at) == (3, "n7:29501"), "the options of the command count more"
    assert read_launcher(1, ["accelerate", "launch", "--num_machines", "1", "t.py"], {}, None, config) is None
    for broken in (b"[1, 2]", b"{", b"[" * 9000, b'"x"'):
        assert entries_of(broken, is_json=True) == {}
    assert entries_of(b"\xff\x00: :\n- 1\n", is_json=False) == {}


@pytest.mark.parametrize(
    ("options", "environment", "below", "path"),
    [
        ({}, {"HOME": "/me"}, "root", "/me/.cache/huggingface/accelerate/default_config.yaml"),
        ({}, {"HOME": "/me", "XDG_CACHE_HOME": "/c"}, "root", "/c/huggingface/accelerate/default_config.yaml"),
        ({}, {"HOME": "/me", "HF_HOME": "/hf"}, "root", "/hf/accelerate/default_config.yaml"),
        ({"config-file": "two.yaml"}, {"HF_HOME": "/hf"}, "cwd", "/two.yaml"),
        ({"config-file": "/etc/two.json", "cpu": ""}, {}, "root", "/etc/two.json"),
    ],
)
def test_which_file_accelerate_reads(options: dict[str, str], environment: dict[str, str], below: str, path: str) -> None:
    assert config_path(7, options, environment) == f"/proc/7/{below}{path}"
    assert config_path(7, {"cpu": ""}, environment) is None


TERMINAL = """
import os, time
from gputop.sources.host.accelerate_config import ConfigFiles
master, terminal = os.openpty()
name = os.ttyname(terminal)
os.close(terminal)
files = ConfigFiles()
while (found := files.entries(name)) is None:
    time.sleep(0.01)
try:
    os.open("/dev/tty", os.O_RDONLY)
except OSError:
    print(found)
"""


def test_a_terminal_in_place_of_the_file_does_not_become_that_of_the_sampler() -> None:
    """Its user's Ctrl-C would reach the sampler."""
    command = [sys.executable, "-c", TERMINAL]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=False)
    assert done.stdout == "{}\n", done.stderr


def waiting_of(pid: int) -> list[int]:
    """The number of nodes for which this process waits, once its configuration is read."""
    cache, launchers = ProcessCache(), WaitingLaunchers()
    found: list[int] = []

    def is_known() -> bool:
        found[:] = [one.nodes for one in launchers.find(cache.pythons(time.monotonic(), 0.0)) if one.pid == pid]
        return any(known[0] == pid for known in launchers._known)

    eventually(is_known, "the configuration is read")
    return found


def test_an_accelerate_whose_file_names_the_machines_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "WAITING_AGE_S", 0.0)
    (tmp_path / "accelerate").write_text("print('up', flush=True)\ninput()\n")
    (tmp_path / "two.yaml").write_text(CONFIG)
    os.mkfifo(tmp_path / "pipe.yaml")
    for name, nodes in (("two.yaml", [2]), ("pipe.yaml", []), ("missing.yaml", [])):
        command = [sys.executable, str(tmp_path / "accelerate"), "launch", "--config_file", name, "train.py"]
        with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            assert waiting_of(process.pid) == nodes, name
            process.stdin.write("\n")


RANK = """
import os, time

launcher = os.getppid()
while os.getppid() == launcher:  # a torchrun that is terminated while it starts its ranks leaves them behind
    time.sleep(0.2)
"""


@pytest.fixture
def torchrun(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The first of two nodes."""
    (tmp_path / "train.py").write_text(RANK)
    words = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
    command = [sys.executable, "-m", "torch.distributed.run", *words, "--rdzv-id=r1", "train.py"]
    started = [subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "GPUTOP": "0"})]
    started[0].args = command
    try:
        yield started[0]
    finally:
        started[0].send_signal(signal.SIGTERM)
        started[0].wait(60)


def test_a_torchrun_is_listed_until_its_ranks_start(
    torchrun: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, launchers = ProcessCache(), WaitingLaunchers()

    def listed() -> list[WaitingLauncher]:
        found = launchers.find(cache.pythons(time.monotonic(), 0.0))
        return [one for one in found if one.pid == torchrun.pid]

    assert not listed(), "it may still be importing torch"
    monkeypatch.setattr(rendezvous, "WAITING_AGE_S", 0.0)
    (found,) = listed()
    assert (found.name, found.nodes, found.rendezvous_id) == ("train.py", 2, "r1")
    assert found.started_at is not None
    assert abs(found.started_at - time.time()) < START_S
    second = subprocess.Popen(torchrun.args, cwd=tmp_path, env={**os.environ, "GPUTOP": "0"})  # type: ignore[arg-type]
    try:
        eventually(lambda: not listed(), "its rank runs", START_S)
    finally:
        second.send_signal(signal.SIGTERM)
        second.wait(60)


def test_the_launcher_of_another_user_is_listed_by_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if os.geteuid() != 0 or python is None:
        pytest.skip("only root can start a process of another user, for which /usr/bin/python3 is needed")
    monkeypatch.setattr(rendezvous, "WAITING_AGE_S", 0.0)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        script = Path(folder, "torchrun")
        script.write_text("import subprocess\nprint('up', flush=True)\ninput()\nsubprocess.run(['sleep', '600'])\n")
        command = [python, str(script), "--nnodes=2", "--rdzv-endpoint=gpu1:29500", "train.py"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, user="nobody", start_new_session=True, **pipes)  # type: ignore[call-overload]
        try:
            assert process.stdout.readline() == "up\n"
            others = LaunchersOfOthers(ProcessCache())

            def listed() -> list[WaitingLauncher]:
                return [one for one in others.find(time.monotonic()) if one.pid == process.pid]

            (found,) = listed()
            assert (found.words, found.nodes, found.meets_at) == ("torchrun of nobody", 2, "gpu1:29500")
            assert found.started_at is not None
            process.stdin.write("\n")
            process.stdin.flush()
            eventually(lambda: not listed(), "it has started a rank")
            again = LaunchersOfOthers(ProcessCache())
            assert process.pid not in [one.pid for one in again.find(time.monotonic())]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.parametrize("ran", [False, True], ids=["waits for nodes", "waits for the ranks of other nodes"])
def test_a_torchrun_whose_ranks_have_ended_waits_for_no_node(
    ran: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "WAITING_AGE_S", 0.0)
    rank = "import time\nwhile time.process_time() < 1.2: pass\n" if ran else ""
    script = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {rank!r}])\nprint('up', flush=True)\ninput()\n"
    (tmp_path / "torchrun").write_text(script)
    command = [sys.executable, str(tmp_path / "torchrun"), "--nnodes=2", "train.py"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        found = WaitingLaunchers().find(ProcessCache().pythons(time.monotonic(), 0.0))
        assert [one.pid for one in found if one.pid == process.pid] == ([] if ran else [process.pid])
        process.stdin.write("\n")
