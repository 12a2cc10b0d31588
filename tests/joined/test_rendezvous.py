"""torchruns that wait for other nodes, over several machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.joined.rendezvous import Rendezvous, rendezvous_text, waiting_rendezvous
from gputop.joined.runs import Seen
from gputop.process import WaitingLauncher
from gputop.snapshot import Host, LaunchPart, Snapshot
from tests import samples

NOW = samples.EPOCH
TORCHRUN = WaitingLauncher(7, "train.py", 2, "gpu1:29500", "x", started_at=NOW - 90)


def host(name: str, *launchers: WaitingLauncher, current: bool = True, offset_s: float = 0.0, **fields: Any) -> Seen:
    snapshot = Snapshot(0, NOW, 0.0, 1.0, Host(name, boot_id=name), waiting_launchers=launchers, **fields)
    return Seen(name, snapshot, offset_s, current)


def waiting(*seen: Seen) -> list[Rendezvous]:
    return list(waiting_rendezvous(seen, NOW))


def test_a_node_that_never_came_is_counted_and_the_hosts_without_it_are_named() -> None:
    (found,) = waiting(host("gpu1", TORCHRUN), host("gpu2"))
    assert (found.hosts, found.missing, found.waited_s) == (("gpu1",), 1, 90.0)
    said = "torchrun on gpu1 has waited 1m30s for 1 of its 2 nodes at gpu1:29500"
    assert rendezvous_text(found) == f"{said}; gpu2 runs none of it"
    assert rendezvous_text(found, ["gpu3"]) == f"{said}; no reading of gpu3"
    (alone,) = waiting(host("gpu1", TORCHRUN))
    assert rendezvous_text(alone) == said, "nothing is known of hosts that nobody watches"
    assert found.as_data()["missing_nodes"] == 1


def test_accelerate_is_named() -> None:
    (found,) = waiting(host("gpu1", replace(TORCHRUN, launcher="accelerate")), host("gpu2", TORCHRUN))[:1]
    assert (found.hosts, found.missing) == (("gpu1",), 1)
    assert rendezvous_text(found).startswith("accelerate on gpu1 has waited 1m30s for 1 of its 2 nodes")


def test_the_launcher_of_another_user_has_a_name() -> None:
    of_alice = replace(TORCHRUN, user="alice")
    found = waiting(host("gpu1", of_alice), host("gpu2", TORCHRUN))
    assert [(one.hosts, one.user) for one in found] == [(("gpu1",), "alice"), (("gpu2",), None)], "two runs"
    assert rendezvous_text(found[0]).startswith("torchrun of alice on gpu1 has waited 1m30s for 1 of its 2 nodes")
    assert found[0].as_data()["user"] == "alice"


def test_nodes_that_are_all_there_and_do_not_meet() -> None:
    (found,) = waiting(host("gpu1", TORCHRUN), host("gpu2", TORCHRUN))
    assert rendezvous_text(found).endswith("at gpu1:29500: its 2 nodes are there and have not met")


def test_what_only_starts_is_not_reported() -> None:
    young = replace(TORCHRUN, started_at=NOW - 30)
    assert not waiting(host("gpu1", TORCHRUN), host("gpu2", young)), "the second node has just come"
    assert not waiting(host("gpu1", young))
    assert not waiting(host("gpu1", replace(TORCHRUN, started_at=None))), "nobody knows how long"
    assert not waiting(host("gpu1", replace(TORCHRUN, started_at=NOW - 30 + 60), offset_s=60.0)), "by its own clock"


def test_what_is_no_second_node_joins_nothing() -> None:
    for other in (
        replace(TORCHRUN, rendezvous_id="y"),
        replace(TORCHRUN, meets_at="gpu1:29501"),
        replace(TORCHRUN, name="other.py"),
    ):
        assert [one.missing for one in waiting(host("gpu1", TORCHRUN), host("gpu2", other))] == [1, 1]
    own = replace(TORCHRUN, meets_at="127.0.0.1:29500")
    assert [one.missing for one in waiting(host("gpu1", own), host("gpu2", own))] == [1, 1], "each at its own address"
    slurm = replace(own, slurm_job_id="42")
    assert [one.missing for one in waiting(host("gpu1", slurm), host("gpu2", slurm))] == [0], "nodes of one job"
    same = host("gpu1", TORCHRUN)
    assert [one.hosts for one in waiting(same, replace(same, host="pod"))] == [("gpu1",)], "one process, seen twice"


def test_what_is_reported_elsewhere_or_is_not_current_is_left_out() -> None:
    ours = replace(TORCHRUN, gputop_job_id="j-n0")
    part = LaunchPart("j", "j-n0", "train.py", "running", 2)
    assert not waiting(host("gpu1", ours, launches=(part,))), "the launch is reported"
    assert waiting(host("gpu1", ours)), "of a Slurm job, a node knows no launch"
    assert not waiting(host("gpu1", TORCHRUN, current=False))
