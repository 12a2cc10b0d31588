"""Two ranks without torch, asked while they live, and when one of them has died."""

from __future__ import annotations

import signal

from gputop.where.asking import ask_run
from tests.tracking.kit import Home, eventually, home

assert home

RANK = """
import sys, gputop
def serve():
    sys.stdin.readline()
gputop.init().log(loss=1.0)
print(flush=True)
serve()
"""


def test_a_killed_rank_is_distinguished_from_one_that_stands_still(home: Home) -> None:
    common = {"WORLD_SIZE": "2", "GPUTOP_RUN_ID": "both"}
    ranks = [home.start(RANK, RANK=str(rank), **common) for rank in range(2)]
    for rank in ranks:
        assert rank.stdout is not None
        rank.stdout.readline()
    run = eventually(lambda: run if len((run := home.only_run()).ranks) == 2 else None, "both ranks are there")
    found = ask_run(run, home.runs)
    assert [(place.state, place.source, place.function) for place in found.ranks] == [("answers", "rank", "serve")] * 2
    assert (found.behind, found.verdict) == ((), None)
    ranks[1].send_signal(signal.SIGKILL)
    ranks[1].wait()
    for known in (run, home.only_run()):  # as the run was known before, and as it is known now
        first, second = ask_run(known, home.runs).ranks
        assert (first.state, first.pid, second.state) == ("answers", ranks[0].pid, "ended")
    assert ranks[0].communicate("\n")[1] == ""
