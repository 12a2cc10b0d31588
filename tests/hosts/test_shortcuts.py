"""``--slurm`` and ``--pods``: a real Slurm job is watched; kubectl is a stand-in that passes bytes, as its exec does."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.errors import GputopError, UsageError
from gputop.hosts.shortcuts import pods_hosts, slurm_hosts
from tests import REPOSITORY
from tests.hosts.machines.slurm import cluster
from tests.hosts.machines.sshd import DEADLINE_S, gputop_there


def stand_in(folder: Path, **programs: str) -> None:
    """Put shell scripts on the path under these names."""
    folder.mkdir(exist_ok=True)
    for name, script in programs.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is first on the path."""
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def once(words: list[str], state: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    there = ["--remote", gputop_there(state), "--virtual", "1", "--no-nccl-ras"]
    assert main(["--once", "--json", *words, *there]) == 0
    return [(found["host"], found["state"]) for found in map(json.loads, capsys.readouterr().out.splitlines())]


def test_the_nodes_of_a_real_slurm_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "slurm"
    folder.mkdir()
    with cluster(folder) as slurm:
        monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
        script = folder / "job.sh"
        script.write_text("#!/bin/sh\nsleep 600\n")
        job = slurm.run("sbatch", "--parsable", "-N2", "-o", str(folder / "out"), str(script)).strip()
        deadline = time.monotonic() + DEADLINE_S
        while slurm.run("squeue", "-h", "-j", job, "-o", "%T").strip() != "RUNNING":
            assert time.monotonic() < deadline, slurm.run("squeue")
            time.sleep(0.1)
        assert once(["--slurm", job], tmp_path / "there", capsys) == [("n1", "live"), ("n2", "live")]
        waiting = slurm.run("sbatch", "--parsable", "-N2", "--begin=now+1hour", str(script)).strip()
        with pytest.raises(GputopError, match="is PENDING: it has no nodes"):
            slurm_hosts(waiting)
        slurm.run("scancel", job, waiting)

        with pytest.raises(GputopError):
            slurm_hosts("999999")


def test_printed_output_of_slurm_is_parsed(programs: Path) -> None:
    expand = 'case "$3" in "n[1-2]") printf "n1\\nn2\\n";; *) echo "$3";; esac'
    stand_in(programs, scontrol=expand, squeue='printf "RUNNING|n[1-2]\\nRUNNING|gpu-7\\nPENDING|\\n"')
    assert slurm_hosts("42") == ("n1", "n2", "gpu-7")
    for printed, said in (
        ("echo 'PENDING|'", "Slurm job 42 is PENDING: it has no nodes."),
        ("true", "Slurm job 42 has ended, or there is none."),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "Slurm job 42 has ended, or there is none."),
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", "Unable to contact"),
    ):
        stand_in(programs, squeue=printed)
        with pytest.raises(GputopError, match=said):
            slurm_hosts("42")
    stand_in(programs, squeue="echo 'RUNNING|x'", scontrol="echo '-oProxyCommand=evil'")
    with pytest.raises(UsageError, match="cannot be the name of a host"):
        slurm_hosts("42")
    for job in ("", "4 2", "-1", "42;x", "x"):
        with pytest.raises(UsageError, match="not the id of a Slurm job"):
            slurm_hosts(job)


def test_the_pods_of_a_label(programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = shlex.quote(str(tmp_path / "asked"))
    stand_in(
        programs,
        kubectl=f'if [ "$1" = get ]; then echo "$@" > {asked}; printf "pod/t-0\\npod/t-1\\n"; exit; fi\n'
        'test "$1 $2 $4" = "exec -i --" || exit 9\nshift 4\nexec "$@"',
    )
    assert once(["--pods", "app=train"], tmp_path / "there", capsys) == [("t-0", "live"), ("t-1", "live")]
    assert (tmp_path / "asked").read_text().split()[2] == "--selector=app=train"
    stand_in(programs, kubectl="exit 0")
    with pytest.raises(GputopError, match="No running pod matches 'app=x'"):
        pods_hosts("app=x")
    stand_in(programs, kubectl="echo 'error: no configuration has been provided' >&2; exit 1")
    with pytest.raises(GputopError, match="kubectl failed: no configuration has been provided"):
        pods_hosts("app=x")


def test_how_hosts_are_named_in_one_way_only(
    programs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (["--slurm", "1", "-H", "a"], ["--slurm", "1", "--pods", "a=b"], ["--pods", "a=b", "--via", "x {host}"]):
        assert main(["--once", *words]) == 2
        assert "names the hosts and how to reach them" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(programs))
    assert main(["--once", "--pods", "app=x"]) == 2
    assert "There is no command 'kubectl' here." in capsys.readouterr().err
