"""A real Slurm of two nodes, n1 and n2, on the loopback interface of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.hosts.machines.sshd import DEADLINE_S, free_port

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("squeue", "scontrol", "sinfo", "sbatch", "srun", "scancel")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"


def why_not() -> str | None:
    """Why Slurm cannot run here; None if it may."""
    missing = [name for name in (*DAEMONS, *COMMANDS) if shutil.which(name, path=_PATH) is None]
    if missing:
        return f"{', '.join(missing)} is not installed (Debian: slurmctld slurmd slurm-client munge)"
    return None if os.getuid() == 0 else "the nodes of this Slurm start as root"


class Slurm:
    """The cluster; ``environment`` makes Slurm's commands use it."""

    def __init__(self, folder: Path, daemons: ExitStack) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons = daemons
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        controller, *nodes = (free_port() for _ in range(3))
        hostname = os.uname().nodename.split(".")[0]
        node_lines = [
            f"NodeName=n{number} NodeHostname={hostname} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=500 State=UNKNOWN"
            for number, port in enumerate(nodes, 1)
        ]
        (folder / "slurm.conf").write_text(
            "\n".join(
                [
                    "ClusterName=test",
                    f"SlurmctldHost={hostname}(127.0.0.1)",
                    *("SlurmUser=root", "SlurmdUser=root", f"AuthInfo=socket={folder}/munge.socket"),
                    *(f"SlurmctldPort={controller}", "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny"),
                    *("ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none"),
                    *("SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "ReturnToService=2", "KillWait=2"),
                    *("AccountingStorageType=accounting_storage/none", "JobCompType=jobcomp/none"),
                    *(f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool.%n"),
                    *(f"SlurmctldPidFile={folder}/ctld.pid", f"SlurmdPidFile={folder}/d.%n.pid"),
                    *(f"SlurmctldLogFile={folder}/ctld.log", f"SlurmdLogFile={folder}/d.%n.log"),
                    *node_lines,
                    "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES",
                    "",
                ]
            )
        )
        munge = [f"--{name}={folder}/munge.{name.split('-')[0]}" for name in ("key-file", "socket", "pid-file", "log-file")]
        self._start("munged", "--force", "--foreground", *munge, f"--seed-file={folder}/munge.seed")
        self._until(lambda: (folder / "munge.socket").exists(), "munged")
        self._start("slurmctld", "-D")
        for name in ("n1", "n2"):
            self._start("slurmd", "-D", "-N", name)
        daemons.callback(self._end_jobs)
        self._until(lambda: self.run("sinfo", "-h", "-o", "%D|%t").strip() == "2|idle", "the nodes")

    def run(self, *words: str) -> str:
        """Return the output of one of Slurm's commands."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout

    def _end_jobs(self) -> None:
        """End what a test has left running, while there are daemons to do it."""
        self.run("scancel", "--me")
        deadline = time.monotonic() + DEADLINE_S
        while self.run("squeue", "-h") and time.monotonic() < deadline:
            time.sleep(0.1)

    def _start(self, name: str, *words: str) -> None:
        program = shutil.which(name, path=_PATH)
        assert program is not None
        with (self.folder / f"{name}.out").open("ab") as out:
            daemon = subprocess.Popen(
                [program, *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder
            )
        self._daemons.callback(_end, daemon)

    def _until(self, is_so: object, what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not is_so():  # type: ignore[operator]
            if time.monotonic() > deadline:
                logs = "".join(path.read_text()[-300:] for path in self.folder.glob("*.out"))
                raise TimeoutError(f"{what} did not come up: {logs}")
            time.sleep(0.1)


def _end(daemon: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        daemon.terminate()
    try:
        daemon.wait(30)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


@contextmanager
def cluster(folder: Path) -> Iterator[Slurm]:
    """A cluster in ``folder``; skips the test, with the reason, if it cannot be started."""
    reason = why_not()
    if reason is not None:
        pytest.skip(f"no Slurm here: {reason}")
    with ExitStack() as daemons:
        try:
            found = Slurm(folder, daemons)
        except TimeoutError as error:
            pytest.skip(f"Slurm does not start here: {error}")
        yield found
