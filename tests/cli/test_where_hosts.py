"""``gputop where -H``: real ranks of one run, each in the state directory of its own "host"."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.cli.main import main
from tests import REPOSITORY
from tests.tracking.kit import Home, clean_environment, eventually, home

assert home

RANK = """
import sys, gputop
def serve():
    sys.stdin.readline()
gputop.init(name="llama").log(loss=1.0)
print(flush=True)
serve()
"""


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
        assert "which rank is behind is not known: nothing is heard of rank 0" in capsys.readouterr().out
        assert where("nobody", "-H", "b", via=via) == 2
        assert "There is no run 'nobody' on these hosts." in capsys.readouterr().err
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
