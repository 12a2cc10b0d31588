"""What findings on the network of a run say: numbers of each host, the place, and what to type."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import Scene, ids, play
from tests.doctor.scenes.near import network
from tests.doctor.scenes.near.hosts import over_hosts, slow_host

SECONDS = 60


def last(scene: Scene, seconds: int = SECONDS) -> tuple[Finding, ...]:
    return play(scene, seconds)[-1]


def only(scene: Scene) -> Finding:
    (finding,) = last(scene)
    return finding


def texts(finding: Finding) -> list[str]:
    return [fact.text for fact in finding.evidence]


def test_a_slow_path_between_two_hosts_names_both_ends_and_its_numbers() -> None:
    found = only(network.slow_path)
    assert found.title == "Slow network: the path from node2 to node1 carries 120 Mb/s, the others 800 Mb/s or more"
    assert texts(found) == [
        "node2 to node1: 120 Mb/s while data waits, which is 67% of the time",
        "all other paths between the hosts: 800 Mb/s or more",
    ]
    assert found.fix.startswith("ssh node2 ethtool eth0")
    assert "iperf3 -c 10.0.0.1" in found.fix
    assert "NCCL_SOCKET_IFNAME" in found.fix


def test_a_host_whose_paths_are_slow_both_ways_is_named() -> None:
    found = only(network.slow_host)
    assert found.title == "Slow network: the link of node3 carries 160 Mb/s, the others 800 Mb/s or more"


def test_sending_and_receiving_of_a_host_are_separate() -> None:
    ring = (
        network.path("node1", "node2", 40.0),
        network.path("node1", "node3", 40.0),
        *(network.path(*ends) for ends in (("node2", "node1"), ("node2", "node3"), ("node3", "node1"), ("node3", "node2"))),
    )
    assert "what node1 sends passes at 120 Mb/s" in only(network.with_network(ring, hosts=3)).title
    turned = tuple(
        replace(each, hostname=there, address=each.local_address, local_address=each.address)
        for each in ring
        for there in network.ADDRESSES
        if network.ADDRESSES[there] == each.address
    )
    assert "what node1 receives passes at 120 Mb/s" in only(network.with_network(turned, hosts=3)).title


def test_both_directions_between_two_of_three_hosts() -> None:
    names = ("node1", "node2", "node3")
    paths = tuple(
        network.path(one, other, 40.0 if {one, other} == {"node1", "node2"} else 6.0)
        for one in names
        for other in names
        if one != other
    )
    found = only(network.with_network(paths, hosts=3))
    assert found.title.startswith("Slow network: the link between node1 and node2 carries 120 Mb/s")


def test_lost_packets_hide_the_slow_path_that_they_make() -> None:
    slow = replace(network.SLOW_BACK[1], lost_segments=10_000)
    found = only(network.with_network((network.BOTH[0], slow)))
    assert found.id == "K06"
    assert found.title == "Packets are lost on the way from node2 to node1: 2.4% of them"
    assert texts(found)[0] == "node2 to node1: 10 000 of 420 000 segments lost, 80 Mb/s"
    assert "ethtool -S eth0" in found.fix


def test_packets_lost_everywhere_are_the_networks() -> None:
    lost = tuple(replace(each, lost_segments=9000) for each in network.BOTH)
    assert only(network.with_network(lost)).title == "Packets are lost between the hosts: 2.1% of them"


def test_a_slower_interface_names_host_and_speeds() -> None:
    found = only(network.slower_card)
    assert (found.id, found.severity, found.confidence) == ("K07", "warning", "likely")
    assert found.title == "Slow link: eth0 of node2 runs at 1 Gb/s, those of the other hosts at 10 Gb/s"
    assert texts(found) == [
        "node2: eth0 runs at 1 Gb/s",
        "node1: eth0 runs at 10 Gb/s",
        "eth0 of node2 is 80% busy on average",
    ]
    assert "ssh node2 ethtool eth0" in found.fix


def test_rdma_ports_are_compared_too() -> None:
    def port(host: str, speed: int) -> object:
        return network.card(host, "mlx5_0/1", 600_000, kind="rdma", speed_mbit_per_s=speed, duplex=None)

    cards = (port("node1", 200_000), port("node2", 100_000))
    found = only(network.with_network((), *cards))  # type: ignore[arg-type]
    assert found.title == "Slow link: mlx5_0/1 of node2 runs at 100 Gb/s, those of the other hosts at 200 Gb/s"
    assert "ssh node2 ibstat mlx5_0" in found.fix


def test_an_rdma_port_that_is_down_on_one_host() -> None:
    def port(host: str, **values: object) -> object:
        return network.card(host, "mlx5_1/1", 600_000, **{"kind": "rdma", "speed_mbit_per_s": 200_000, **values})

    down = port("node2", state="down", sent_bytes=0, received_bytes=0)
    found = only(network.with_network((), port("node1"), down))  # type: ignore[arg-type]
    assert found.title == "RDMA port mlx5_1/1 of node2 is down; on the other hosts it carries traffic"
    assert "NCCL_IB_HCA=^mlx5_1" in found.fix
    idle = port("node1", sent_bytes=0, received_bytes=0)
    assert last(network.with_network((), idle, down)) == (), "nobody uses it"  # type: ignore[arg-type]


def test_an_rdma_port_that_repeats_packets() -> None:
    port = network.card(None, "mlx5_0/1", 600_000, kind="rdma", sent_packets=10**8, lost_packets=50_000)
    assert only(network.here(port)).title == "Network: mlx5_0/1 repeats 0.05% of its packets"
    assert last(network.here(replace(port, lost_packets=500))) == ()


def test_a_full_network_is_likely_if_ranks_wait() -> None:
    found = only(network.full)
    assert (found.id, found.confidence) == ("K08", "likely")
    assert texts(found) == [
        "node1: eth0 carries 933 Mb/s of 1 Gb/s",
        "node2: eth0 carries 933 Mb/s of 1 Gb/s",
        "each rank waits 40% of a step or more for gradients",
    ]


def test_a_network_without_a_speed_is_full_if_data_always_waits() -> None:
    cards = tuple(replace(each, kind="virtual", speed_mbit_per_s=None) for each in network.FULL_CARDS)
    found = only(network.with_network(network.FULL, *cards, exposed=0.4))
    assert texts(found)[0] == "node1: data for node2 waits 97% of the time, at 920 Mb/s"


def test_a_slow_host_whose_link_is_slow_has_that_as_its_cause() -> None:
    def scene(second: int) -> Snapshot:
        return replace(slow_host(second), paths=network.SLOW_BACK)

    found = {finding.id: finding for finding in last(scene, 80)}
    assert set(found) == {"K01", "K05"}
    assert "The link of this host is slower" in found["K01"].cause
    assert texts(found["K01"])[-1] == "its network carries 120 Mb/s while data waits, that of the others 800 Mb/s or more"
    assert found["K01"].fix.startswith("gputop doctor -H node1,node2")


def test_a_slow_host_with_a_slower_busy_interface_has_that_as_its_cause() -> None:
    def scene(second: int) -> Snapshot:
        return replace(slow_host(second), paths=network.BOTH, interfaces=(network.FAST, network.SLOW))

    found = {finding.id: finding for finding in last(scene, 80)}
    assert texts(found["K01"])[-1] == "its eth0 runs at 1 Gb/s, those of the others at 10 Gb/s"


def test_a_slow_host_is_not_blamed_for_the_link_of_another() -> None:
    def scene(second: int) -> Snapshot:
        turned = (network.path("node1", "node2", 40.0), network.path("node2", "node1"))
        return replace(slow_host(second), paths=turned)

    found = {finding.id: finding for finding in last(scene, 80)}
    assert "lower clocks, fewer cores" in found["K01"].cause


def test_the_network_of_a_run_that_is_not_tracked_is_judged_too() -> None:
    def scene(second: int) -> Snapshot:
        return replace(network.slow_path(second), runs=(), points=())

    found = only(scene)
    assert (found.id, found.run) == ("K05", "hosts:node1,node2")


def test_a_run_that_is_not_tracked_beside_one_that_is() -> None:
    """node1 and node2 have the tracked run, node3 and node4 another one."""
    others = (network.path("node3", "node4"), network.path("node4", "node3", 40.0))
    found = only(network.with_network((*network.BOTH, *others)))
    assert (found.id, found.run) == ("K05", "hosts:node3,node4")
    assert "from node4 to node3" in found.title


def test_numbers_of_a_host_that_are_none_break_nothing() -> None:
    odd = tuple(
        replace(each, sending_s=value, window_s=window, sent_bytes=sent)
        for each, value, window, sent in zip(network.BOTH, (math.nan, math.inf), (math.inf, 60.0), (2**64, -5), strict=True)
    )
    scene = network.with_network(odd, network.card("node1", window_s=math.nan), network.card("node2", speed_mbit_per_s=-7))
    assert ids(last(scene)) == []


def test_an_interface_name_of_another_machine_is_never_run_as_a_command() -> None:
    """Whoever copies a fix runs nothing that a host has sent."""
    evil = "eth0; rm -rf ~"
    slow = tuple(replace(each, interface=evil) for each in network.SLOW_BACK)
    lossy = (network.BOTH[0], replace(network.LOSSY, interface=evil))
    used = tuple(replace(each, interface=evil) for each in network.BOTH)
    cards = (replace(network.FAST, name=evil), replace(network.SLOW, name=evil))
    odd = network.card(None, evil, duplex="half", master=evil)
    for scene in (
        network.with_network(slow),
        network.with_network(lossy),
        network.with_network(used, *cards),
        network.here(odd, paths=(replace(network.path("node1", "node2"), hostname=None, interface=evil),)),
    ):
        fix = only(scene).fix
        assert "rm -rf" not in fix.replace(shlex.quote(evil), "EVIL")
        assert not any(shlex.quote(evil) in line for line in fix.splitlines() if line.startswith("ssh ")), "two shells read it"


def test_faults_of_one_machine_say_what_the_kernel_says() -> None:
    assert only(network.half).title == "Network: eth0 works at half duplex, 100 Mb/s"
    assert only(network.broken_bond).title == "Network: eth1, a member of bond0, is down"
    assert "cat /proc/net/bonding/bond0" in only(network.broken_bond).fix
    flapping = network.here(network.card(None, link_changes=6))
    assert texts(only(flapping)) == ["the link of eth0 changed 6 times in the last ten minutes"]
    damaged = network.here(network.card(None, errors=250))
    assert only(damaged).title == "Network: eth0 reports 250 errors in 60 s"


def test_a_run_on_even_hosts_is_quiet() -> None:
    assert last(over_hosts) == ()
    assert last(network.with_network(network.RING, *(network.card(host) for host in network.ADDRESSES), hosts=3)) == ()
