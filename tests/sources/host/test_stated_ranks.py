"""The numbers that a script gets on its own command line, and which real processes they belong to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gputop.groups import group_keys
from gputop.process import DeviceUse, StatedRank
from gputop.sources.host import unlisted as host_unlisted
from gputop.sources.host import waiting_ranks
from gputop.sources.host.launchers import stated_rank
from gputop.sources.host.reader import HostReader
from tests.real_processes import IDLE, PRELUDE, Processes, see_only_own_processes

MAIN = ("python", "-u", "main.py", "-a", "resnet18")
TWO = ("--rank", "0", "--world-size", "2")


@pytest.fixture(autouse=True)
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    see_only_own_processes(monkeypatch)
    monkeypatch.setattr(host_unlisted, "SCAN_S", 0.0)
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 1e9)
    monkeypatch.setattr(waiting_ranks, "MEETING_AGE_MIN_S", 0.0)


@pytest.mark.parametrize(
    ("words", "stated"),
    [
        (TWO, StatedRank(0, 2, option="--rank")),
        (("--rank=1", "--world_size=2", "data"), StatedRank(1, 2, option="--rank")),
        ((*TWO, "--dist-url", "tcp://10.0.0.1:23456"), StatedRank(0, 2, option="--rank", meets_at="10.0.0.1:23456")),
        ((*TWO, "--dist-url", "env://"), StatedRank(0, 2, option="--rank")),
        ((*TWO, "--master_addr", "gpu1", "--master_port", "29500"), StatedRank(0, 2, option="--rank", meets_at="gpu1:29500")),
        ((*TWO, "--multiprocessing-distributed"), StatedRank(node=0, nodes=2, option="--rank")),
        (("--num-machines", "2", "--machine-rank", "1"), StatedRank(node=1, nodes=2, option="--machine-rank")),
        (("--distributed-rank=3", "--distributed-world-size=4"), StatedRank(3, 4, option="--distributed-rank")),
        (("trainer.rank=1", "trainer.world_size=2"), StatedRank(1, 2, option="trainer.rank")),
        (("--rank", "8"), None),
        (("--rank", "8", "--world-size", "1"), None),
        (("--rank", "0", "--world-size", "1", "--multiprocessing-distributed"), None),
        (("--rank", "8", "--world-size", "2"), None),
        (("--rank", "-1", "--world-size", "-1"), None),
        (("--rank", "--world-size"), None),
        (("rank", "0", "world-size", "2"), None),
    ],
)
def test_numbers_are_read_in_the_usual_spellings(words: tuple[str, ...], stated: StatedRank | None) -> None:
    assert stated_rank((*MAIN, *words)) == stated


def test_a_launcher_has_no_number_of_a_script() -> None:
    assert stated_rank(("python", "-m", "torch.distributed.run", "--nnodes=2", "--node-rank=0", "main.py")) is None
    assert stated_rank(()) is None
    assert stated_rank(None) is None


def test_a_rank_that_its_command_numbers_is_listed_and_what_it_forked_is_not(processes: Processes) -> None:
    waiting, _ = processes.ready(argv=(processes.script("main.py", IDLE), *TWO))
    matrix, _ = processes.ready(argv=(processes.script("lora.py", IDLE), "--rank", "8"))
    numbered, _ = processes.ready(argv=(processes.script("main.py", IDLE), *TWO), RANK="1", WORLD_SIZE="4")
    shown = {process.pid: process for process in HostReader().read_processes({}, {})}
    assert (shown[waiting.pid].rank, shown[waiting.pid].world_size) == (0, 2)
    assert matrix.pid not in shown
    assert (shown[numbered.pid].rank, shown[numbered.pid].world_size, shown[numbered.pid].stated) == (1, 4, None)


def test_what_a_node_has_spawned_are_its_ranks_and_the_parent_is_none(processes: Processes) -> None:
    child = f"# multiprocessing.spawn\n{PRELUDE}import socket; s = socket.socket()\n{IDLE}"
    starts = f"""import subprocess
found = [subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE) for _ in 'ab']
[one.stdout.readline() for one in found]
say(*[one.pid for one in found])
idle()"""
    path = processes.script("main.py", starts)
    parent, words = processes.ready(argv=(path, "--num-machines", "2", "--machine-rank", "1"))
    shown = {process.pid: process for process in HostReader().read_processes({}, {})}
    assert parent.pid not in shown
    for pid in map(int, words):
        assert shown[pid].stated == StatedRank(node=1, nodes=2, option="--machine-rank")
        assert shown[pid].in_rendezvous
        assert shown[pid].rank is None
    # A script that spawns whatever its options say: the number is not its own.
    parent, words = processes.ready(argv=(path, *TWO))
    shown = {process.pid: process for process in HostReader().read_processes({}, {})}
    assert parent.pid not in shown


def test_the_parent_of_copies_is_no_rank(processes: Processes) -> None:
    copies = "child = os.fork()\nif child: say(child)\nparent = os.getppid()\nidle()"
    parent, words = processes.ready(argv=(processes.script("main.py", copies), *TWO))
    assert Path(f"/proc/{words[0]}").exists()
    assert not {parent.pid, int(words[0])} & {process.pid for process in HostReader().read_processes({}, {})}


STARTS_THE_OTHERS = """import subprocess
if "LOCAL_RANK" in os.environ:
    say("ready")
else:
    numbers = {{"LOCAL_RANK": "1", "WORLD_SIZE": "4", {node}}}
    command = [sys.executable, os.path.abspath({script}), *sys.argv[1:]]
    other = subprocess.Popen(command, env=os.environ | numbers, stdout=subprocess.PIPE)
    other.stdout.readline()
    say(other.pid)
idle()"""


@pytest.mark.parametrize(
    ("node", "script", "ranks"),
    [
        ("'NODE_RANK': '0'", "__file__", (0, 1)),
        ("'NODE_RANK': '1'", "__file__", (2, 3)),
        ("", "__file__", (None, None)),
        ("'NODE_RANK': '0'", "os.path.dirname(__file__) + '/other.py'", (None, None)),
    ],
    ids=["first host", "second host", "without NODE_RANK", "another script"],
)
def test_the_first_rank_that_starts_the_others_has_their_numbers(
    node: str, script: str, ranks: tuple[int | None, int | None], processes: Processes
) -> None:
    code = STARTS_THE_OTHERS.format(node=node, script=script)
    processes.script("other.py", "say('ready')\nidle()")
    first, words = processes.ready(argv=(processes.script("fit.py", code), "--epochs", "3"))
    shown = {process.pid: process for process in HostReader().read_processes({}, {})}
    found = tuple(shown[pid].rank if pid in shown else None for pid in (first.pid, int(words[0])))
    assert found == ranks
    if ranks[0] is not None:
        assert [shown[pid].stated.local_rank for pid in (first.pid, int(words[0]))] == [0, 1]
        assert {shown[pid].world_size for pid in (first.pid, int(words[0]))} == {4}
        other = shown[int(words[0])]
        for uses in ((), (DeviceUse("GPU-0", contexts="C"),)):
            keys = group_keys([shown[first.pid], replace(other, devices=uses)])
            assert len(set(keys.values())) == 1, "also if only the other one computes on a GPU so far"
