"""Scripts that stop because of a NaN, notebooks whose kernels end, and ranks whose launcher or NCCL tells where to look."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.starts import SAME_RUN_LINES, TRIES_MIN
from tests.doctor.logs.test_ends import STEPS
from tests.doctor.logs.test_logs import scan

FAILED = (
    "Traceback (most recent call last):\n"
    '  File "/opt/env/bin/torchrun", line 8, in <module>\n'
    "    sys.exit(main())\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\n"
    "train.py FAILED\n"
    "------------------------------------------------------------\n"
    "Root Cause (first observed failure):\n"
    "[0]:\n"
    "  time      : 2025-11-03_16:08:04\n"
    "  host      : {host}\n"
    "  rank      : {rank} (local_rank: {local})\n"
    "  exitcode  : {code} (pid: 81180)\n"
    "  error_file: <N/A>\n"
    "  traceback : To enable traceback see: the documentation\n"
    "============================================================\n"
)


def findings(*logs: str) -> tuple[Finding, ...]:
    return explain([scan(log) for log in logs]).findings


def raised(line: str) -> str:
    frame = '  File "/srv/train.py", line 33, in setup\n    go()\n'
    return f"Traceback (most recent call last):\n{frame}{line}\n"


@pytest.mark.parametrize(
    "text",
    [
        "Loss is nan, stopping training\n",
        "Loss is inf, stopping training\n",
        "  3/234 [......] - ETA: 33:37:24 - loss: 44.4110Batch 3: Invalid loss, terminating training\n",
        "NaN in the loss at step 31 (loss = nan): exiting\n",
        "Aborted at step 31, the loss is not finite\n",
        raised("AssertionError: Rank 13: found NaN in local forward loss calculation. Device: 5, node: n1"),
        raised("ValueError: the loss is NaN after 31 steps"),
        raised("RuntimeError: found NaN in local grad norm for bucket #0 in backward pass"),
    ],
)
def test_a_training_that_ends_itself_because_of_its_loss_is_told_why(text: str) -> None:
    (found, *others) = findings(STEPS + text + FAILED.format(host="n1", rank=0, local=0, code=1))
    assert (found.id, found.severity, found.confidence) == ("J01", "error", "certain")
    assert not others


@pytest.mark.parametrize(
    "text",
    [
        "loss is nan, skipping batch 31\n",
        "trial 3: loss is nan, stopping trial\n",
        "Trial 7 stopped: loss is nan\n",
        "trial 4: loss is nan, stopping early\n",
        "fold 2 aborted, the loss is not finite\n",
        "sweep run 12 terminated: the loss became nan\n",
        "stopping this fold, loss is nan\n",
        "exit code 0: the loss is finite, nan checks are off\n",
        raised("ValueError: Input X contains NaN."),
    ],
)
def test_a_nan_that_ends_no_training_is_no_reason_for_its_end(text: str) -> None:
    assert all(found.id != "J01" for found in findings(STEPS + text))


@pytest.mark.parametrize(
    ("line", "confidence"),
    [
        ("1046.6s	25	Your notebook tried to allocate more memory than is available. It has restarted.", "certain"),
        ("Your session crashed after using all available RAM.", "certain"),
        ("The kernel for train.ipynb appears to have died. It will restart automatically.", "possible"),
        ("nbclient.exceptions.DeadKernelError: Kernel died", "possible"),
        ("[I 12:41:07.119 LabApp] AsyncIOLoopKernelRestarter: restarting kernel (1/5), keep random ports", "possible"),
        ("The Kernel crashed while executing code in the current cell or a previous cell. ", "possible"),
    ],
)
def test_a_notebook_whose_kernel_ended_ran_out_of_memory_certainly_or_possibly(line: str, confidence: str) -> None:
    found = findings(f"{STEPS}{line}\n")[0]
    assert (found.id, found.confidence) == ("H05", confidence)


@pytest.mark.parametrize(
    ("rank", "local", "id_", "confidence"),
    [(4, 0, "A08", "certain"), (5, 1, "A08", "likely"), (1, 1, "invalid_ordinal", "likely")],
)
def test_a_missing_gpu_of_a_rank_with_another_number_on_its_host(rank: int, local: int, id_: str, confidence: str) -> None:
    error = raised("torch.AcceleratorError: CUDA error: invalid device ordinal")
    of_rank = "".join(f"[rank{rank}]: {line}\n" for line in error.splitlines())
    found = findings(of_rank + FAILED.format(host="n2", rank=rank, local=local, code=1))[0]
    assert (found.id, found.confidence) == (id_, confidence)


CLOSED = "{own}:9108:9808 [0] misc/socket.cc:881 NCCL WARN socketProgress: Connection closed by remote peer {peer}<40118>\n"
LOST = raised(
    "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. "
    "See inner exception for details."
)


def test_a_node_that_loses_the_rendezvous_after_its_peers_says_where_they_were() -> None:
    ended = FAILED.format(host="n1.cluster", rank=8, local=0, code=-6)
    (found, *_) = findings(STEPS + CLOSED.format(own="n1", peer="n0.cluster") + LOST + ended)
    assert (found.id, found.confidence) == ("G04", "likely")
    assert "n0.cluster" in found.title
    assert "ssh n0.cluster" in found.fix
    assert findings(STEPS + LOST + ended)[0].id == "G03"
    closed_later = findings(STEPS + LOST + ended + CLOSED.format(own="n1", peer="n0.cluster"))[0]
    assert closed_later.id == "G03", "what closes after it is no cause of it"


def test_peers_on_the_same_host_are_no_other_host() -> None:
    ended = FAILED.format(host="n1.cluster", rank=1, local=1, code=-6)
    found = findings(STEPS + CLOSED.format(own="n1", peer="n1") + ended)[0]
    assert (found.id, "n1 had closed" in found.title) == ("G04", False)


BEGINS = "{own}:7180:7210 [0] NCCL INFO ncclCommInitRankConfig comm 0x55d1c4 rank {rank} nranks 4 cudaDev 0 - Init {what}\n"


def started(ranks: tuple[int, ...], interface: str, what: str = "START") -> str:
    meets = f"alpha:7180:7180 [0] NCCL INFO Bootstrap : Using {interface}:172.17.0.1<0>\n"
    return meets + "".join(BEGINS.format(own="alpha", rank=rank, what=what) for rank in ranks)


@pytest.mark.parametrize("interface", ["docker0", "virbr0", "br-0f31c99a2b7d"])
def test_ranks_of_several_hosts_that_meet_through_a_bridge(interface: str) -> None:
    found = findings(started((0, 1), interface) + "13:18:30 [heartbeat] 0 steps done\n")[0]
    assert (found.id, found.confidence) == ("G02", "likely")
    assert interface in found.title
    assert "NCCL_SOCKET_IFNAME" in found.fix


def test_ranks_that_can_meet_are_not_told_of_a_bridge() -> None:
    assert not findings(started((0, 1), "enp65s0f0"))
    assert not findings(started((0, 1), "docker0") + started((0, 1), "docker0", "COMPLETE"))
    assert not findings(started((0, 1, 2, 3), "docker0"))
    assert not findings(started((0, 1), "docker0"), started((2, 3), "docker0"))
    assert not findings("alpha:7180:7180 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\n")


FAILS = (
    "[W209 10:16:{at:02d}.118203411 socket.cpp:697] [c10d] The client socket has failed to connect to {to} (errno: {errno} - "
    "{why}).\n"
)


def fails(times: int, to: str = "[::ffff:192.168.178.41]:29400", errno: int = 110, why: str = "Connection timed out") -> str:
    return "".join(FAILS.format(at=at, to=to, errno=errno, why=why) for at in range(times))


@pytest.mark.parametrize(
    ("to", "errno", "why"),
    [
        ("[::ffff:192.168.178.41]:29400", 110, "Connection timed out"),
        ("192.168.178.41:29400", 111, "Connection refused"),
        ("[node-a]:29400", 113, "No route to host"),
    ],
)
def test_a_node_that_tries_to_connect_until_the_end_cannot_reach_the_other(to: str, errno: int, why: str) -> None:
    found = findings(fails(TRIES_MIN, to, errno, why) + "^C\n$ ping 192.168.178.41\n64 bytes from it\n")[0]
    assert (found.id, found.confidence) == ("G03", "likely")
    assert "port 29400" in found.title
    assert why.lower() in found.title
    assert "nc -zv" in found.fix


@pytest.mark.parametrize(
    "log",
    [
        fails(TRIES_MIN - 1),
        fails(TRIES_MIN) + STEPS,
        fails(TRIES_MIN) + "loading\n" * (SAME_RUN_LINES + 1),
        fails(TRIES_MIN, errno=97, why="Address family not supported by protocol"),
        "".join(fails(1, f"[node-{number}]:29400") for number in range(TRIES_MIN)),
    ],
    ids=["a few times", "it trains", "more lines follow", "over IPv6", "several places"],
)
def test_a_node_that_may_have_reached_the_other_is_fine(log: str) -> None:
    assert all(found.id != "G03" for found in findings(log))


JOINING = (
    "[2023-10-05 13:21:23,199][torch.distributed.distributed_c10d][INFO] - Waiting in store based barrier to initialize "
    "process group for rank: {rank}, key: store_based_barrier_key:1 (world_size=4, worker_count={joined}, timeout=0:30:00)\n"
)


def test_ranks_that_wait_for_others_until_the_end() -> None:
    waiting = "".join(JOINING.format(rank=at % 2, joined=2) for at in range(TRIES_MIN))
    found = findings(waiting)[0]
    assert (found.id, found.confidence) == ("G03", "likely")
    assert found.title == "2 of 4 ranks have joined, and wait for the others"
    assert not findings(waiting + STEPS)
    assert not findings(waiting + JOINING.format(rank=0, joined=4))


@pytest.mark.parametrize(("joined", "ids"), [(2, ["G03"]), (4, ["G01"])])
def test_ranks_that_wait_for_others_are_no_other_hang(joined: int, ids: list[str], tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    at = (f"[2023-10-05 13:{21 + number // 6}:{number % 6}3,199]" for number in range(60))
    log.write_text("".join(f"{time}{JOINING.partition(']')[2]}".format(rank=0, joined=joined) for time in at))
    assert [item.id for item in explain_logs([str(log)])[0]] == ids


STOPPED = (
    "^C[2024-01-28 16:44:09,112] torch.distributed.elastic.agent.server.api: [WARNING] Received Signals.SIGINT death signal\n"
)


def test_a_run_that_is_stopped_by_hand_after_nccl_was_ready_everywhere_stood() -> None:
    ready = started((0, 1, 2, 3), "eth0") + started((0, 1, 2, 3), "eth0", "COMPLETE")
    found = findings(f"{ready}[0] entering the first dist.barrier()\n{STOPPED}")[0]
    assert (found.id, found.confidence) == ("G02", "likely")
    assert "NCCL_P2P_DISABLE" in found.fix
    assert not findings(f"{ready}[0] entering the first dist.barrier()\n")
    assert not findings(ready + STEPS + STOPPED)
    assert not findings(started((0, 1, 2, 3), "eth0") + started((0, 1, 2), "eth0", "COMPLETE") + STOPPED)


def test_what_is_typed_ends_a_run_as_well_and_a_plug_in_of_nccl_is_not_missed() -> None:
    plug_in = "desk:41120:41120 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: {why}\n"
    log = plug_in.format(why="cannot open shared object file: No such file or directory")
    log += started((0, 1, 2, 3), "eth0", "COMPLETE") + "rank 0: before the first all_reduce\n^C\n"
    assert [found.id for found in findings(log)] == ["G02"]


def test_a_word_at_the_beginning_of_a_sample_does_not_end_the_run() -> None:
    sample = "KING RICHARD III:\nKilled\nAborted, and the traitor's head cut off,\nOut of memory and of mind, my lord.\n"
    assert all(found.confidence == "possible" for found in findings(STEPS + sample + STEPS))
    assert findings(f"{STEPS}Killed\nAborted (core dumped)\n")[0].id == "H05"


def test_a_build_of_torch_without_cuda_is_told_by_the_first_line_of_yolo() -> None:
    begins = "Ultralytics 8.3.40 🚀 Python-3.11.9 torch-2.5.1{build} {device}\n"
    (found,) = findings(begins.format(build="+cpu", device="CPU (13th Gen Intel Core(TM) i7-13700KF)") + STEPS)
    assert (found.id, found.severity, found.confidence) == ("A12", "warning", "likely")
    assert "2.5.1+cpu" in found.title
    assert not findings(begins.format(build="+cu121", device="CUDA:0 (NVIDIA GeForce RTX 3060, 12282MiB)") + STEPS)
