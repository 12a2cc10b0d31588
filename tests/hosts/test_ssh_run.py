"""A DDP over two real sshds, whole: launched, watched as one run, its slow and its missing node named, logs read, stopped."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.doctor.rules.hosts import uneven
from gputop.jobs import identity, job_processes
from tests.hosts.machines.sshd import Lab, lab, needs_sshd
from tests.hosts.test_launch import LAUNCH_S, reach, steps
from tests.terminal import Terminal
from tests.tracking.kit import Home, eventually, home

assert home
assert lab
pytestmark = [needs_sshd, pytest.mark.long]
TRAIN = """
import os, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
print("rank", dist.get_rank(), "of", dist.get_world_size(), os.environ["TRAIN_KEY"], flush=True)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    if os.environ["GPUTOP_DIR"].endswith("state_b"):
        time.sleep(0.03)
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
"""
WATCH_S = (8, 20, 60)
"""How long the doctor watches, more where the steps of a busy machine are few."""


def test_a_training_over_two_hosts_from_its_launch_to_its_end(
    lab: Lab, home: Home, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "my runs é"
    there.mkdir()
    (there / "train.py").write_text(TRAIN)
    over = reach(lab, "a,b")
    command = ["env", "TRAIN_KEY=sesame", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", "train.py"]
    assert main(["--virtual", "1", "launch", *over, "--name", "mine", "--cwd", str(there), "--", *command]) == 0
    job_id = capfd.readouterr().out.split()[0]
    screen = [sys.executable, "-m", "gputop", *over, "--virtual", "1", "-i", "300ms", "--no-nccl-ras"]
    try:
        eventually(lambda: min(steps(lab, host) for host in "ab") > 80, "both nodes train", LAUNCH_S)
        with Terminal(screen, {"GPUTOP_DIR": str(tmp_path / "here"), "HOME": str(tmp_path)}, columns=140, rows=40) as terminal:
            terminal.wait_for(lambda text: text.count(" live ") == 2 and "Run mine over 2 hosts · 2 of 2 ranks" in text)
            said = _slow(over, capfd, monkeypatch)
            assert "of each step for b" in said
            assert f"  gputop {shlex.join(reach(lab, 'b'))}  # shows its clocks" in said, "a command to copy"
            assert said.index("Run mine over 2 hosts: a rank ") < said.index(", b rank "), "as the user names them"
            assert main(["logs", *over, job_id]) == 0
            heard = {line.partition(" | ")[0]: line for line in capfd.readouterr().out.splitlines() if " of 2" in line}
            assert set(heard) == {"a", "b"}, "what each rank printed"

            # The node of b is gone: nothing of it answers, and nobody tells so.
            gone = sorted(identity.marked(f"{job_id}-n1"))
            assert len(gone) > 1
            for pid in gone:
                os.kill(pid, signal.SIGSTOP)
            with lab.cut_off("b"):
                terminal.wait_for("run mine: b has not been heard from")
                assert main(["--no-nccl-ras", "doctor", "--for", "8s", *over]) == 1
                said = capfd.readouterr().out
                assert "Run mine over 1 host: a rank " in said
                assert " of 2 has not been heard from; no reading of b." in said
                assert main(["--no-nccl-ras", "doctor", "--for", "8s", "--json", *over]) == 1
                (lacking,) = json.loads(capfd.readouterr().out)["incomplete_runs"]
                assert (lacking["name"], lacking["world_size"], lacking["unread_hosts"]) == ("mine", 2, ["b"])
                assert len(lacking["missing_ranks"]) == 1
                assert main(["stop", *over, job_id]) == 1
                said, wrong = capfd.readouterr()
                assert f"a: {job_id}-n0: stopped" in said
                assert "b: connection refused." in wrong
            terminal.wait_for(lambda text: text.count(" live ") == 2 and "has not been heard from" not in text)
            terminal.press("q")
            assert terminal.wait_exit() == 0
    finally:
        code = main(["stop", *over, job_id])
    said, _ = capfd.readouterr()
    assert code == 0
    assert f"b: {job_id}-n1: stopped" in said
    for name in (f"{job_id}-n0", f"{job_id}-n1"):
        assert not identity.marked(name)
        assert not job_processes.of_job(name)


def _slow(over: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What the doctor says once it has found that the hosts are uneven."""
    monkeypatch.setattr(uneven, "HOLD_S", 1.0)
    for seconds in WATCH_S:
        assert main(["--no-nccl-ras", "doctor", "--for", f"{seconds}s", *over]) in (0, 1)
        said = capfd.readouterr().out
        if "Uneven hosts: the others wait" in said:
            break
    return said


LOSES_A_NODE = """
case $GPUTOP_DIR in *state_b) kill -9 $$;; esac
exec sleep 600
"""
"""What torchrun does where a node dies before the ranks have met: on the others, it waits."""


def test_a_node_that_dies_before_the_ranks_meet_is_named(
    lab: Lab, home: Home, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    over = reach(lab, "a,b")
    assert main(["launch", *over, "--name", "early", "--cwd", str(tmp_path), "--", "sh", "-c", LOSES_A_NODE]) == 0
    job_id = capfd.readouterr().out.split()[0]
    said = "illed on b: what runs on a may wait for it until a timeout"
    screen = [sys.executable, "-m", "gputop", *over, "--virtual", "1", "-i", "300ms", "--no-nccl-ras"]
    try:
        with Terminal(screen, {"GPUTOP_DIR": str(tmp_path / "here"), "HOME": str(tmp_path)}, columns=140, rows=40) as terminal:
            terminal.wait_for(f"launch early: k{said}")
            terminal.wait_for("Launch early over 2 hosts · no step yet")
            terminal.press("q")
            assert terminal.wait_exit() == 0
        assert main(["--no-nccl-ras", "doctor", *over]) == 1
        told = capfd.readouterr().out
        assert f"Launch {job_id} (early) has made no step yet. K{said}." in told
        (stop,) = [line for line in told.splitlines() if line.startswith("  gputop stop ")]
        assert main(["--no-nccl-ras", "doctor", "--for", "15s", "--json", *over]) == 1
        (launch,) = json.loads(capfd.readouterr().out)["incomplete_launches"]
        assert (launch["launch_id"], launch["hosts"], launch["ended_hosts"]) == (job_id, ["a"], {"b": "killed"})
    finally:
        assert main(["stop", *over, job_id]) == 0
    assert stop.split()[-1] == job_id
    assert not identity.marked(f"{job_id}-n0")
    main(["--no-nccl-ras", "doctor", "--for", "4s", *over])
    assert "Launch" not in capfd.readouterr().out
