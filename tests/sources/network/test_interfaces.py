"""Interfaces and RDMA ports as the kernel describes them in /proc/net/dev and /sys/class, in a tree of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.sources.network.interfaces import InterfaceFiles, Link
from gputop.sources.network.watch import Network, NetworkReader


class Tree:
    """A root directory with network interfaces."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._path = root
        self.traffic: dict[str, tuple[int, int, int]] = {}
        (root / "proc/net").mkdir(parents=True)
        (root / "sys/class/net").mkdir(parents=True)

    def add(self, name: str, *, device: bool = True, **files: str) -> None:
        there = self._path / f"sys/devices/{name}"
        there.mkdir(parents=True)
        (self._path / f"sys/class/net/{name}").symlink_to(there)
        if device:
            (there / "device").mkdir()
        for file, text in {"type": "1", "operstate": "up", "mtu": "1500", "carrier_changes": "1", **files}.items():
            (there / file).write_text(f"{text}\n")
        self.count(name)

    def change(self, name: str, **files: str) -> None:
        for file, text in files.items():
            (self._path / f"sys/class/net/{name}" / file).write_text(f"{text}\n")

    def bond(self, name: str, *members: str, **files: str) -> None:
        self.add(name, device=False, **files)
        (self._path / f"sys/devices/{name}/bonding").mkdir()
        for member in members:
            (self._path / f"sys/devices/{member}/master").symlink_to(self._path / f"sys/devices/{name}")

    def remove(self, name: str) -> None:
        (self._path / f"sys/class/net/{name}").unlink()
        del self.traffic[name]
        self._write()

    def count(self, name: str, received: int = 0, sent: int = 0, errors: int = 0) -> None:
        self.traffic[name] = (received, sent, errors)
        self._write()

    def _write(self) -> None:
        rows = [f"{name:>6}: {r} 1 {e} 0 0 0 0 0 {s} 1 0 0 0 0 0 0" for name, (r, s, e) in self.traffic.items()]
        (self._path / "proc/net/dev").write_text("\n".join(["Inter-| Receive | Transmit", " face |bytes", *rows]) + "\n")

    def rdma(self, adapter: str, **files: str) -> None:
        there = self._path / f"sys/class/infiniband/{adapter}/ports/1"
        for folder in ("counters", "hw_counters"):
            (there / folder).mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (there / file.replace("__", "/")).write_text(f"{text}\n")

    def reader(self) -> NetworkReader:
        return NetworkReader(InterfaceFiles(self.root))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def names(network: Network) -> list[str]:
    return [interface.name for interface in network.interfaces]


def test_only_what_leaves_the_machine_is_listed(tree: Tree) -> None:
    tree.add("lo", device=False, type="772")
    tree.add("eth0", speed="25000", duplex="full")
    tree.add("docker0", device=False, uevent="DEVTYPE=bridge\nINTERFACE=docker0", speed="10000")
    tree.add("veth12", device=False, speed="10000")
    tree.add("tun0", device=False, type="65534")
    tree.add("vlan7", device=False, uevent="DEVTYPE=vlan", speed="25000")
    tree.add("ib0", type="32", speed="100000")
    found = {each.name: each for each in tree.reader().read([1], 0.0).interfaces}
    assert {name: each.kind for name, each in found.items()} == {"eth0": "ethernet", "vlan7": "vlan", "ib0": "infiniband"}
    assert (found["eth0"].speed_mbit_per_s, found["eth0"].duplex, found["eth0"].mtu) == (25000, "full", 1500)
    assert found["eth0"].sent_bytes is None, "one reading says nothing about the last minute"


@pytest.mark.parametrize("speed", ["-1", "4294967295", "", "0"])
def test_a_speed_that_the_driver_does_not_know_is_unknown(tree: Tree, speed: str) -> None:
    tree.add("eth0", speed=speed, duplex="unknown")
    (found,) = tree.reader().read([1], 0.0).interfaces
    assert (found.speed_mbit_per_s, found.duplex) == (None, None)


def test_the_speed_of_a_virtual_interface_means_nothing(tree: Tree) -> None:
    tree.add("veth12", device=False, speed="10000", duplex="full")
    assert InterfaceFiles(tree.root).read_link("veth12") == Link("virtual", mtu=1500)


def test_hundreds_of_virtual_interfaces_are_looked_at_once_a_minute(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.add("eth0")
    for number in range(5):
        tree.add(f"veth{number}", device=False)
    looked: list[str] = []
    state = InterfaceFiles.read_state
    monkeypatch.setattr(InterfaceFiles, "read_state", lambda files, name: looked.append(name) or state(files, name))
    reader = tree.reader()
    for second in range(0, 61, 5):
        assert names(reader.read([1], float(second))) == ["eth0"]
    assert (looked.count("eth0"), looked.count("veth3")) == (13, 2)


def test_members_name_their_bond(tree: Tree) -> None:
    tree.add("eth0", speed="25000")
    tree.add("eth1", operstate="down")
    tree.bond("bond0", "eth0", "eth1", speed="25000")
    found = {each.name: each for each in tree.reader().read([1], 0.0).interfaces}
    assert (found["bond0"].kind, found["bond0"].master) == ("bond", None)
    assert (found["eth1"].master, found["eth1"].state) == ("bond0", "down")


def test_counts_cover_the_last_minute(tree: Tree) -> None:
    tree.add("eth0", speed="1000", duplex="full", carrier_changes="3")
    reader = tree.reader()
    for second in range(0, 101, 5):
        tree.count("eth0", second * 1000, second * 10, second)
        (found,) = reader.read([1], float(second)).interfaces
    assert (found.window_s, found.received_bytes, found.sent_bytes, found.errors) == (60.0, 60_000, 600, 60)
    assert found.link_changes == 0
    tree.change("eth0", carrier_changes="5", speed="100")
    (found,) = reader.read([1], 105.0).interfaces
    assert found.link_changes == 2
    assert found.speed_mbit_per_s == 100, "a link that comes back may have another speed"


def test_a_counter_of_32_bits_wraps_and_one_that_is_reset_begins_anew(tree: Tree) -> None:
    tree.add("eth0")
    reader = tree.reader()
    for second, count in ((0, 2**32 - 1000), (5, 500)):
        tree.count("eth0", count, count)
        (found,) = reader.read([1], float(second)).interfaces
    assert (found.received_bytes, found.sent_bytes) == (1500, 1500)
    for second, count in ((10, 2**40), (15, 20)):
        tree.count("eth0", count, count)
        (found,) = reader.read([1], float(second)).interfaces
    assert (found.window_s, found.received_bytes) == (None, None)


def test_an_interface_that_goes_away_stays_listed_as_gone(tree: Tree) -> None:
    tree.add("eth0", speed="1000")
    tree.add("eth1", speed="1000")
    reader = tree.reader()
    reader.read([1], 0.0)
    tree.remove("eth1")
    found = reader.read([1], 5.0)
    assert [(each.name, each.state) for each in found.interfaces] == [("eth0", "up"), ("eth1", "gone")]


def test_files_of_another_network_namespace_are_not_believed(tree: Tree) -> None:
    tree.add("eth0", speed="1000")
    tree.traffic = {"eth7": (1, 1, 0)}
    tree._write()
    assert names(tree.reader().read([1], 0.0)) == []


def test_an_interface_that_comes_while_others_are_read_changes_nothing(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.add("eth0", speed="1000")
    reader = tree.reader()
    reader.read([1], 0.0)
    listed = InterfaceFiles.describes
    monkeypatch.setattr(
        InterfaceFiles,
        "describes",
        lambda files, known: tree.add("veth1", device=False) if "veth1" not in known else listed(files, known),
    )
    for second in (5.0, 10.0):
        (found,) = reader.read([1], second).interfaces
        assert (found.name, found.kind, found.speed_mbit_per_s, found.state) == ("eth0", "ethernet", 1000, "up")


def test_an_interface_stays_known_while_its_files_are_implausible(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.add("eth0", speed="1000")
    reader = tree.reader()
    reader.read([1], 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(InterfaceFiles, "describes", lambda files, known: False)
        assert names(reader.read([1], 5.0)) == []
    assert names(reader.read([1], 10.0)) == ["eth0"]


def test_an_rdma_port_counts_words_and_repeats(tree: Tree) -> None:
    tree.rdma("mlx5_0", state="4: ACTIVE", rate="100 Gb/sec (4X EDR)")
    reader = tree.reader()
    for second, count in ((0, 10), (5, 30)):
        tree.rdma(
            "mlx5_0",
            counters__port_rcv_data=str(count),
            counters__port_xmit_data=str(2 * count),
            counters__port_xmit_packets=str(count),
            counters__symbol_error=str(count),
            counters__link_error_recovery=str(count),
            counters__link_downed="255",
            hw_counters__packet_seq_err=str(count),
            hw_counters__local_ack_timeout_err="1",
        )
        (found,) = reader.read([1], float(second)).interfaces
    assert (found.name, found.kind, found.state, found.speed_mbit_per_s) == ("mlx5_0/1", "rdma", "up", 100_000)
    assert (found.received_bytes, found.sent_bytes, found.sent_packets) == (80, 160, 20)
    assert (found.errors, found.lost_packets) == (40, 20)
    assert found.link_changes is None, "the counter is at its end"


def test_an_rdma_port_that_is_down_says_so(tree: Tree) -> None:
    tree.rdma("mlx5_1", state="1: DOWN", rate="10 Gb/sec (4X SDR)")
    (found,) = tree.reader().read([1], 0.0).interfaces
    assert (found.state, found.sent_bytes, found.errors) == ("down", None, None)
