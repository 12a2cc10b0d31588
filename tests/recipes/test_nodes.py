"""What the nodes of one launch agree on: torchrun's variables, and an address that is taken for nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gputop.cli.launching.here import prepared
from gputop.errors import UsageError
from gputop.recipes.catalogue import Launch
from gputop.recipes.nodes import NodeOrder, NodeReady, as_node, endpoint_of, over_nodes, own_address, parse_endpoint
from gputop.recipes.own_commands import OwnCommand, for_elsewhere
from gputop.wire import decode, encode

OWN = Launch(("torchrun", "train.py"), {"LR": "1"}, "/", "train")
ORDER = NodeOrder("20261122-141300-3f2a", node=1, nodes=2)


def test_torchrun_learns_of_the_others_by_its_variables() -> None:
    found = over_nodes(OWN, ORDER, "10.0.0.2", "10.0.0.1:29400")
    assert found.argv == OWN.argv
    assert found.env == {
        "LR": "1",
        "PET_NNODES": "2",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "10.0.0.1:29400",
        "PET_RDZV_ID": ORDER.id,
        "PET_RDZV_CONF": "is_host=False,read_timeout=300",
        "PET_LOCAL_ADDR": "10.0.0.2",
    }
    assert "is_host=True" in over_nodes(OWN, replace(ORDER, node=0), "", "x:1").env["PET_RDZV_CONF"]
    assert "PET_LOCAL_ADDR" not in over_nodes(OWN, ORDER, "", "x:1").env, "an address that is not known is not told"
    assert ORDER.job_id == f"{ORDER.id}-n1"


@pytest.mark.parametrize("option", ["--rdzv-endpoint=x:1", "--rdzv_backend", "--node-rank", "--master_addr=x"])
def test_a_command_that_says_where_its_nodes_meet_is_left_to_itself(option: str) -> None:
    own = replace(OWN, argv=(*OWN.argv, option))
    assert over_nodes(own, ORDER, "10.0.0.2", "x:1") is own


def test_a_recipe_for_one_machine_is_refused() -> None:
    with pytest.raises(UsageError, match="one machine"):
        as_node(replace(OWN, argv=("torchrun", "--standalone", "train.py")))
    with pytest.raises(UsageError, match="single trains on one machine"):
        as_node(replace(OWN, recipe_id="single"))
    assert as_node(OWN) is OWN
    assert as_node(replace(OWN, argv=("torchrun", "--standalone", "x"), recipe_id="ddp")).argv == ("torchrun", "x")


def test_where_the_nodes_meet_is_an_address_whatever_the_first_host_says() -> None:
    assert endpoint_of(NodeReady("10.0.0.1", 4000), None) == "10.0.0.1:4000"
    assert endpoint_of(NodeReady("fe80::1", 4000), None) == "[fe80::1]:4000"
    assert endpoint_of(NodeReady("$(reboot)", 4000), "gpu1") == "gpu1:4000"
    assert endpoint_of(NodeReady("10.0.0.1", 4000), "gpu1:29400") == "gpu1:29400"
    for ready in (
        NodeReady("$(reboot)", 4000),
        NodeReady("fe80::1%$(reboot)", 4000),
        NodeReady("10.0.0.1", 0),
        NodeReady("10.0.0.1", 1 << 16),
    ):
        with pytest.raises(UsageError):
            endpoint_of(ready, None)
    assert parse_endpoint("[::1]:29400") == ("[::1]", 29400)
    for text in ("", "a b", "-x:1", "a:0", "a:65536", "a:1:2", "a;b"):
        with pytest.raises(UsageError):
            parse_endpoint(text)


def test_the_own_address_is_the_one_that_ssh_reached() -> None:
    assert own_address({"SSH_CONNECTION": "10.0.0.9 51000 10.0.0.2 22"}) == "10.0.0.2"
    assert own_address({"SSH_CONNECTION": "nonsense"}) == own_address({})


def test_the_variables_of_a_command_reach_a_host_as_its_environment(tmp_path: Path) -> None:
    variables, words = for_elsewhere(OwnCommand("", "TOKEN='a $b' true x", "", {"LR": "0.1", "TOKEN": "old"}))
    assert words == ("true", "x")
    order = decode(NodeOrder, encode(replace(ORDER, command=words, environment=variables, cwd=str(tmp_path))))
    found = prepared(order)
    assert (found.env["TOKEN"], found.env["LR"]) == ("a $b", "0.1")
    assert "a $b" not in f"{found.argv}{found.values}"
    with pytest.raises(UsageError, match="not the name of a variable"):
        for_elsewhere(OwnCommand("", "true", "", {"a; reboot": "1"}))
