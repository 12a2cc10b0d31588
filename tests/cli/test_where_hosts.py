"""``gputop where -H``: real ranks of one run, each in the state directory of its own "host"."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gputop.cli.main import main
from tests import REPOSITORY
from tests.packages import needs
from tests.tracking.kit import Home, clean_environment, eventually, home
from tests.where.test_before_steps import LINES, SCRIPT

assert home

RANK = """
import sys, gputop
def serve():
    sys.stdin.readline()
gputop.init(name="llama").log(loss=1.0)
print(flush=True)
serve()
"""


LAUNCH_S = 120.0
"""Two processes import torch."""


def start(state: Path, rank: int, **more: str) -> subprocess.Popen[str]:
    environment = {"WORLD_SIZE": "2", "GPUTOP_RUN_ID": "both", "RANK": str(rank), **more}
    script = state.parent / "train.py"
    script.write_text(RANK)
    return subprocess.Popen(
        [sys.executable, str(script)],
        env=clean_environment(state, **environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_ranks_are_asked_on_each_host(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def where(*words: str, via: str) -> int:
        remote = shlex.join(["env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "gputop"])
        return main(["--no-nccl-ras", "where", *words, "--via", via, "--remote", remote])

    via = f"env {shlex.quote(f'GPUTOP_DIR={tmp_path}')}/{{host}}"
    ranks = [start(tmp_path / host, rank) for rank, host in enumerate("ab")]
    try:
        for rank in ranks:
            assert rank.stdout is not None
            rank.stdout.readline()
        assert where("-H", "a,b", "--json", via=via) == 0
        found = json.loads(capsys.readouterr().out)
        assert [(host["host"], host["state"]) for host in found["hosts"]] == [("a", "live"), ("b", "live")]
        known = [(place["rank"], place["hostname"], place["state"], place["function"]) for place in found["ranks"]]
        assert known == [(0, "a", "answers", "serve"), (1, "b", "answers", "serve")]
        assert [place["pid"] for place in found["ranks"]] == [rank.pid for rank in ranks]

        os.kill(ranks[1].pid, signal.SIGSTOP)
        gone = f"sh -c 'test $0 != gone && exec env {shlex.quote(f'GPUTOP_DIR={tmp_path}')}/$0 sh' {{host}}"
        assert where("llama", "-H", "a,b,gone", via=gone) == 1, "a host was not read"
        out, err = capsys.readouterr()
        assert out.splitlines()[0].startswith("llama  both: ")
        assert "  rank 0 on a: train.py:4 in serve" in out
        assert "  rank 1 on b: is stopped by a signal (T), last seen at train.py:4 in serve" in out
        assert err.startswith("gone: failed.")

        ranks[0].kill()
        eventually(lambda: ranks[0].poll() is not None, "it ended")
        assert where("-H", "b", via=via) == 0
        assert "which rank is behind is not known: nothing is heard from rank 0" in capsys.readouterr().out
        assert where("nobody", "-H", "b", via=via) == 2
        assert "There is no run 'nobody' on these hosts." in capsys.readouterr().err
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


@needs("torch")
def test_ranks_before_their_first_step_are_asked_on_each_host(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No host lists a run of them: it was "There is no live run on these hosts"."""
    address = socket.gethostname()
    with socket.socket() as free:
        try:
            free.bind((address, 0))
        except OSError:
            pytest.skip("this machine does not know its own name")
        port = str(free.getsockname()[1])
    (tmp_path / "loads").touch()
    # No common id: each of these hosts sees the processes of the other one, too.
    meets = {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": address, "MASTER_PORT": port}
    command = (sys.executable, "-m", "gputop", "run", "--", sys.executable, str(SCRIPT), "load", str(tmp_path))
    ranks = [
        subprocess.Popen(
            command,
            env=clean_environment(tmp_path / host, RANK=str(rank), OMP_NUM_THREADS="1", **meets),
            stdin=subprocess.DEVNULL,
        )
        for rank, host in enumerate("ab")
    ]
    home.started += ranks  # type: ignore[arg-type]
    via = f"env {shlex.quote(f'GPUTOP_DIR={tmp_path}')}/{{host}}"
    remote = shlex.join(["env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "gputop", "--virtual", "1"])

    def asked(*words: str) -> dict[str, Any] | None:
        code = main(["--no-nccl-ras", "where", *words, "-H", "a,b", "--json", "--via", via, "--remote", remote])
        out, err = capsys.readouterr()
        last[:] = [code, out, err]
        found = json.loads(out) if out else None
        return found if found is not None and found["behind"] else None

    last: list[object] = []
    try:
        found = eventually(asked, f"an answer, not {last}", LAUNCH_S)
        assert last[0] == 1
        assert (found["run_id"], found["name"], found["behind"]) == (None, SCRIPT.name, [1])
        known = [(place["rank"], place["state"], place["line"]) for place in found["ranks"]]
        assert known == [(0, "answers", LINES["INIT"]), (1, "answers", LINES["LOAD"])]
        # Each of these hosts sees the other one's processes, too.
        assert re.search(r"; rank 1 on [ab]; nothing is heard from rank 2$", found["verdict"])
        assert asked(SCRIPT.name) is not None, "by its name"
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
