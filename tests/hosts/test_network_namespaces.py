"""A real DDP over two network namespaces with a veth pair between them: its slow link, and its lost packets, are named.

The kernel limits what one side sends: with netem, else with a token bucket, which also drops packets if its queue is short.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.doctor.rules.hosts import paths, traffic
from gputop.snapshot import Snapshot
from tests.hosts.machines.sshd import gputop_there
from tests.tracking.kit import eventually, home

pytestmark = pytest.mark.long
assert home
ADDRESSES = {"a": "10.199.77.1", "b": "10.199.77.2"}
SLOW = ("netem rate 100mbit", "tbf rate 100mbit burst 128kb latency 30ms")
LOSSY = ("netem loss 3%", "tbf rate 400mbit burst 16kb limit 30kb")
WATCH_S = (35, 90, 120)
"""How long the doctor watches, more where the machine is busy."""
START_S = 300.0
TRAIN = """
import pathlib, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
steps = 0
while True:
    loss = model(torch.randn(8, 1024)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
    if steps == 5:
        pathlib.Path(sys.argv[1], f"rank{dist.get_rank()}").touch()
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Two:
    """Two network namespaces, "hosts" a and b, with one rank each."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.mark = f"gputop{os.getpid()}"
        self.ranks: list[subprocess.Popen[bytes]] = []

    def space(self, host: str) -> str:
        return f"{self.mark}{host}"

    def open(self) -> None:
        for host in ADDRESSES:
            ip("netns", "add", self.space(host))
        one, other = (f"gpu{os.getpid()}{host}" for host in ADDRESSES)
        ip("link", "add", one, "netns", self.space("a"), "type", "veth", "peer", "name", other, "netns", self.space("b"))
        for host, card in (("a", one), ("b", other)):
            within = ("-n", self.space(host))
            ip(*within, "link", "set", card, "name", "net0")
            ip(*within, "addr", "add", f"{ADDRESSES[host]}/24", "dev", "net0")
            for name in ("lo", "net0"):
                ip(*within, "link", "set", name, "up")

    def limit(self, *ways: str) -> None:
        """Limit what b sends, in the first way that this kernel knows."""
        for way in ways:
            words = ["ip", "netns", "exec", self.space("b"), "tc", "qdisc", "replace", "dev", "net0", "root", *way.split()]
            if subprocess.run(words, capture_output=True, check=False).returncode == 0:
                return
        pytest.skip(f"this kernel has no {' and no '.join(way.split()[0] for way in ways)} (tc qdisc)")

    def start(self, script: Path) -> None:
        for rank, host in enumerate(ADDRESSES):
            there = {
                "RANK": str(rank),
                "LOCAL_RANK": "0",
                "WORLD_SIZE": "2",
                "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": ADDRESSES["a"],
                "MASTER_PORT": "29613",
                "GLOO_SOCKET_IFNAME": "net0",
                "GPUTOP_RUN_ID": "over-veth",
            }
            words = ["ip", "netns", "exec", self.space(host), "sh", "-c", f"exec {gputop_there(self.state / host)} run -- "]
            words[-1] += shlex.join([sys.executable, str(script), str(self.state)])
            self.ranks.append(subprocess.Popen(words, env={**os.environ, **there}, start_new_session=True))

    def gputop(self, *words: str) -> int:
        """Run a command on both, as two hosts."""
        via = f"ip netns exec {self.mark}{{host}} env GPUTOP_DIR={shlex.quote(str(self.state))}/{{host}}"
        remote = gputop_there(self.state).replace(f" GPUTOP_DIR={self.state}", "")
        return main(["--no-nccl-ras", *words, "-H", "a,b", "--via", via, "--remote", remote])

    def trains(self) -> bool:
        assert all(rank.poll() is None for rank in self.ranks), "a rank has ended"
        return all((self.state / f"rank{rank}").exists() for rank in (0, 1))

    def close(self) -> None:
        for rank in self.ranks:
            if rank.poll() is None:
                os.killpg(rank.pid, signal.SIGKILL)
            rank.wait()
        for host in ADDRESSES:
            subprocess.run(["ip", "netns", "del", self.space(host)], capture_output=True, check=False)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("network namespaces need root and the commands ip and tc (Debian: iproute2)")
    made = Two(tmp_path)
    try:
        try:
            made.open()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this kernel makes no network namespaces here: {error.stderr.strip()}")
        yield made
    finally:
        made.close()


def said_of(two: Two, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str) -> str:
    """What the doctor says about the training over both once it says these words."""
    monkeypatch.setattr(traffic, "WINDOW_MIN_S", 9.0)
    monkeypatch.setattr(paths, "HOLD_S", 1.0)
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    two.start(script)
    eventually(two.trains, "both ranks train", START_S)
    said = ""
    for seconds in WATCH_S:
        assert two.gputop("doctor", "--for", f"{seconds}s") in (0, 1)
        said = capfd.readouterr().out
        if words in said:
            break
    return said.partition("Run train.py over 2 hosts")[2] or said


@pytest.mark.usefixtures("home")
def test_the_slow_link_of_a_training_over_two_hosts_is_named(
    two: Two, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two.limit(*SLOW)
    said = said_of(two, tmp_path, capfd, monkeypatch, "Slow network:")
    assert "Slow network: the path from b to a carries " in said
    assert "ssh b ethtool net0" in said
    assert "Packets are lost" not in said
    assert two.gputop("--once", "--json") == 0
    for host, line in zip(ADDRESSES, capfd.readouterr().out.splitlines(), strict=True):
        snapshot = Snapshot.from_json(json.dumps(json.loads(line)["snapshot"]))
        (card,) = snapshot.interfaces
        assert (card.name, card.kind, card.state, card.speed_mbit_per_s) == ("net0", "virtual", "up", None)
        (path,) = snapshot.paths
        assert (path.local_address, path.interface) == (ADDRESSES[host], "net0")


@pytest.mark.usefixtures("home")
def test_the_link_that_loses_packets_is_named(
    two: Two, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two.limit(*LOSSY)
    said = said_of(two, tmp_path, capfd, monkeypatch, "Packets are lost")
    assert "Packets are lost on the way from b to a: " in said
    assert "ethtool -S net0" in said
    assert "Slow network:" not in said, "the loss explains it"
