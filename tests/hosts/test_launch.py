"""A launch over two real sshds: real torchruns meet, the ranks are one run, and nothing is left once it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.jobs import identity, job_processes
from gputop.tracking.reader.runs import RunReader
from tests.hosts.machines.sshd import Lab, gputop_at_home, lab, needs_sshd
from tests.tracking.kit import Home, eventually, home

assert home
assert lab
pytestmark = [needs_sshd, pytest.mark.long]
LAUNCH_S = 180.0
"""Two torchruns and two ranks import torch."""


def reach(lab: Lab, hosts: str) -> list[str]:
    return ["-H", hosts, "--via", lab.via, "--remote", gputop_at_home()]


def steps(lab: Lab, host: str) -> int:
    """The newest step that a host's own rank has recorded."""
    reader = RunReader(lab.state(host) / "runs")
    try:
        return max((rank.step or 0 for run in reader.poll().runs for rank in run.ranks), default=0)
    finally:
        reader.close()


def test_a_demo_trains_over_two_hosts(
    lab: Lab, home: Home, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = ["ddp", "--epochs", "1000", "--train-samples", "2000", "--batch-size", "8"]
    assert main(["--virtual", "1", "launch", *reach(lab, "a,refusing"), *recipe]) == 1
    said = capfd.readouterr().err
    assert "refusing: connection refused." in said
    assert "Nothing was started." in said
    assert not (lab.state("a") / "jobs").exists()
    assert main(["launch", *reach(lab, "a,b"), "single"]) == 1
    assert "single trains on one machine." in capfd.readouterr().err

    assert main(["--virtual", "1", "launch", *reach(lab, "a,b"), *recipe]) == 0
    job_id, *words = capfd.readouterr().out.splitlines()[0].split()
    assert words[:4] == ["runs", "on", "a,", "b,"]
    try:
        eventually(lambda: min(steps(lab, host) for host in "ab") > 3, "both nodes train", LAUNCH_S)
        assert main(["--once", "--no-nccl-ras", *reach(lab, "a,b")]) == 0
        rows = [line.split() for line in capfd.readouterr().out.splitlines()]
        (row,) = (row for row in rows if row[:1] == ["lenet-ddp"])
        assert (row[2], row[-2:]) == ("2", ["a,", "b"])
        assert main(["jobs", *reach(lab, "a,b")]) == 0
        (job,) = (line.split() for line in capfd.readouterr().out.splitlines()[1:])
        assert (job[:4], job[-2:]) == ([job_id, "running", "ddp", "2"], ["a,", "b"])

        # A link that is lost while somebody reads takes nothing from the training.
        command = [sys.executable, "-m", "gputop", "logs", job_id, "-f", *reach(lab, "a,b")]
        reading = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert reading.stdout is not None
        heard: set[str] = set()
        while not {"a |", "b |"} <= heard:
            line = reading.stdout.readline()
            assert line, "it ended before both hosts told something"
            heard.add(line[:3])
        links = [int(pid) for pid in Path(f"/proc/{reading.pid}/task/{reading.pid}/children").read_text().split()]
        for task in Path(f"/proc/{reading.pid}/task").iterdir():
            links += [int(pid) for pid in (task / "children").read_text().split()]
        for pid in set(links):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _, err = reading.communicate(timeout=60)
        assert reading.returncode == 1
        assert "a: link lost." in err
        before = {host: steps(lab, host) for host in "ab"}
        eventually(lambda: all(steps(lab, host) > before[host] for host in "ab"), "it trains on")

        (second,) = (rank.pid for run in RunReader(lab.state("b") / "runs").poll().runs for rank in run.ranks)
        assert second is not None
        os.kill(second, signal.SIGSTOP)
        assert main(["--no-nccl-ras", "where", *reach(lab, "a,b"), "--json"]) == 1
        found = json.loads(capfd.readouterr().out)
        stopped = next(place for place in found["ranks"] if place["pid"] == second)
        assert (stopped["state"], stopped["hostname"]) == ("stopped", "b")
        assert found["behind"] == [stopped["rank"]]
        assert found["verdict"].endswith(f"; rank {stopped['rank']} on b")
        os.kill(second, signal.SIGCONT)
    finally:
        code = main(["stop", *reach(lab, "a,b"), job_id])
    said = capfd.readouterr().out.splitlines()
    assert code == 0
    assert sorted(said) == [f"a: {job_id}-n0: stopped", f"b: {job_id}-n1: stopped"]
    for name in (f"{job_id}-n0", f"{job_id}-n1"):
        assert not identity.marked(name)
        assert not job_processes.of_job(name)
    assert main(["logs", *reach(lab, "a,b"), job_id]) == 0
    heard = {line.partition(" | ")[0] for line in capfd.readouterr().out.splitlines()}
    assert heard == {"a", "b"}
    assert main(["stop", *reach(lab, "a,b"), "20200101-000000-0000"]) == 2
    assert "There is no job '20200101-000000-0000'." in capfd.readouterr().err
