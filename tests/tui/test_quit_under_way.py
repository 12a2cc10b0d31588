"""Quitting waits for nobody that the screen has asked to start or stop something, and says how it was left."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.hosts.machines.sshd import Lab, gputop_at_home, lab, needs_sshd
from tests.terminal import Terminal

assert lab


@needs_sshd
def test_q_calls_off_a_launch_that_a_host_holds_up(lab: Lab, tmp_path: Path) -> None:
    """ssh waits a minute for the host that says nothing, and gputop three for hosts to be ready."""
    reach = ["-H", "a,silent", "--via", lab.via, "--remote", gputop_at_home(), "--virtual", "1"]
    environment = {"GPUTOP_DIR": str(tmp_path / "here"), "HOME": str(tmp_path)}
    with Terminal([sys.executable, "-m", "gputop", *reach], environment, columns=160, rows=45) as terminal:
        terminal.wait_for(" live ")
        terminal.press("/", "a", "enter")  # the form shows nothing as long as the host under the cursor has no reading
        terminal.wait_for("1 of 2")
        terminal.press("l")
        terminal.wait_for("on a,silent, as one run")
        terminal.press("f5")
        terminal.wait_for("Starting on a, silent ...")
        terminal.press("q")
        assert terminal.wait_exit() == 0
        assert "ddp was being started on a, silent and is canceled: gputop jobs -H a,silent" in terminal.text()
    assert not list((lab.state("a") / "jobs").glob("*")), "it runs there"
