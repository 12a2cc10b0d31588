"""Commands in findings over hosts reach the hosts as the user does."""

from __future__ import annotations

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.doctor.findings.reaching import plainly, reached
from gputop.hosts.transport import transport_of

HOSTS = ("a", "b")
LAB = transport_of("ssh -F 'my lab' {host}", "/opt/my/gputop").options
WAY = "--via 'ssh -F '\"'\"'my lab'\"'\"' {host}' --remote /opt/my/gputop"


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("gputop -H b  # its clocks\nnvidia-smi -q  # on b", f"gputop -H b {WAY}  # its clocks\nnvidia-smi -q  # on b"),
        ("x\ngputop doctor -H a,b  # the link", f"x\ngputop doctor -H a,b {WAY}  # the link"),
        ("gputop -H 'b c'  # its clocks", f"gputop -H 'b c' {WAY}  # its clocks"),
        ("gputop where 4f2a  # its line", f"gputop where -H a,b {WAY} 4f2a  # its line"),
        ("gputop where", f"gputop where -H a,b {WAY}"),
        ("gputop run -- python train.py -H x", "gputop run -- python train.py -H x"),
        ("# see gputop where", "# see gputop where"),
    ],
)
def test_a_command_names_the_hosts_and_the_way_to_them(fix: str, said: str) -> None:
    finding = Finding("K01", "warning", "likely", "", (), "", fix, "")
    assert reached(finding, HOSTS, LAB).fix == said
    assert reached(finding, HOSTS, plainly).fix == said.replace(f" {WAY}", "")
