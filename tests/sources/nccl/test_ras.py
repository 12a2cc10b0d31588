"""NCCL's RAS service, played by servers on real sockets that answer as NCCL's source and documentation say it does."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from typing import Any

import pytest

from gputop.snapshot import Communicator, CommunicatorRank, LaunchEnvironment, Process
from gputop.sources.nccl import ras
from gputop.sources.nccl.address import DEFAULT_ADDRESS, address_of
from gputop.sources.nccl.answer import parse_json, parse_text
from gputop.sources.nccl.ras import Question, RasError, RasWatch, ask_all, ask_once, question_about
from tests.real_processes import eventually

HERE = "127.0.0.1"
AWAY = "192.0.2.7"  # TEST-NET-1: never an address of this machine


def rank(number: int, pid: int, host: str = HERE, all_reduce: int = 100, **status: Any) -> dict[str, Any]:
    state = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    return {
        "rank": number,
        "host": host,
        "pid": pid,
        "cuda_dev": 0,
        "nvml_dev": number,
        "status": {**state, **status},
        "collective_counts": {"Broadcast": 3, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": all_reduce},
    }


def missing(number: int, pid: int, dead: bool = False) -> dict[str, Any]:
    status = {"unresponsive": True, "considered_dead": dead}
    return {"rank": number, "host": HERE, "pid": pid, "cuda_dev": 0, "nvml_dev": number, "status": status}


def job(name: int, *ranks: dict[str, Any], absent: tuple[dict[str, Any], ...] = (), version: str = "2.30.3") -> str:
    communicator = {
        "hash": hex(name),
        "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
        "size": len(ranks) + len(absent),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(absent),
        "ranks": ranks,
        "missing_ranks": absent,
    }
    answer = {
        "nccl_version": version,
        "cuda_runtime_version": 13000,
        "cuda_driver_version": 13000,
        "timestamp": "2026-01-05 13:06:53",
        "communicators_count": 1,
        "communicators": [communicator],
        "ras": {"collection_time_sec": 0.001, "timeouts_count": 0},
    }
    return json.dumps(answer, indent=2) + "\n"


class Ras:
    """One process's RAS service: a thread that accepts, speaks the protocol, and closes after its answer.

    ``speaks_json`` False is NCCL before 2.28.7; ``silent`` is a process that is stopped: the kernel accepts for it.
    """

    def __init__(self, answer: str, *, port: int = 0, speaks_json: bool = True, silent: bool = False) -> None:
        self.answer = answer
        self.asked = 0
        self.commands: list[str] = []
        self.speaks_json = speaks_json
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.socket.bind((HERE, port))
        self.socket.listen(64)
        self.address: tuple[str, int] = self.socket.getsockname()
        if not silent:
            threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Ras:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                with connection, contextlib.suppress(OSError):
                    self._speak(connection)

    def _speak(self, connection: socket.socket) -> None:
        with connection.makefile("rw", newline="\n") as stream:
            for line in stream:
                command = line.strip().lower()
                self.commands.append(command)
                if command.startswith("client protocol "):
                    stream.write("SERVER PROTOCOL 2\n")
                elif command.startswith("timeout ") or (command == "set format json" and self.speaks_json):
                    stream.write("OK\n")
                elif command == "verbose status":
                    self.asked += 1
                    half = len(self.answer) // 2
                    stream.write(self.answer[:half])
                    stream.flush()  # an answer comes in several pieces
                    stream.write(self.answer[half:])
                    return
                else:
                    stream.write(f"ERROR: Unknown command {line.strip()}\n")
                stream.flush()


def using(pid: int, **settings: str) -> Process:
    """A process with torch's NCCL watchdog."""
    return Process(
        pid=pid, threads=(("pt_nccl_watchdg", 1),), environment=LaunchEnvironment(settings=tuple(sorted(settings.items())))
    )


def asking(ras: Ras, *pids: int) -> Question:
    return Question((ras.address,), frozenset(pids), frozenset(pids))


def test_every_rank_is_read_with_its_gpu_and_counts() -> None:
    error = rank(1, 12, all_reduce=99, async_error=6)
    with Ras(job(0xAE94423CFBB2EF4A, rank(0, 11), error)) as ras:
        (found,) = ask_all(asking(ras, 11, 12))
    counts = {"Broadcast": 3, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0}
    assert found == Communicator(
        communicator_id="ae94423cfbb2ef4a",
        size=2,
        ranks=(
            CommunicatorRank(0, 11, HERE, 0, "running", None, {**counts, "AllReduce": 100}),
            CommunicatorRank(1, 12, HERE, 1, "running", "remote process error", {**counts, "AllReduce": 99}),
        ),
        nccl_version="2.30.3",
    )
    assert ras.asked == 1
    assert ras.commands == ["client protocol 2", "timeout 2", "set format json", "verbose status"]


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "running"),
        ({"init_state": 7}, "init"),
        ({"finalize_called": True}, "finalize"),
        ({"destroy_flag": True}, "finalize"),
        ({"abort_flag": True, "destroy_flag": True}, "abort"),
    ],
)
def test_states_are_named_as_in_nccls_own_text(status: dict[str, Any], state: str) -> None:
    found = parse_json(job(1, rank(0, 11, **status))).communicators[0].ranks[0]
    assert (found.state, found.async_error) == (state, None)
    assert parse_json(job(1, rank(0, 11, init_state=5))).communicators[0].ranks[0].async_error == "invalid usage"


def test_a_missing_rank_is_read_although_nccl_omits_a_comma() -> None:
    right = job(1, rank(0, 11), absent=(missing(1, 12), missing(2, 13, dead=True)), version="2.28.9")
    wrong = re.sub(r'("nvml_dev": [12]),', r"\1", right)  # as NCCL 2.28.7 to 2.29.7 write it
    with pytest.raises(json.JSONDecodeError):
        json.loads(wrong)
    for text in (right, wrong):
        ranks = parse_json(text).communicators[0].ranks
        assert [(item.rank, item.pid, item.state) for item in ranks] == [
            (0, 11, "running"),
            (1, 12, "missing"),
            (2, 13, "dead"),
        ]
        assert ranks[1].counts == {}


def test_jobs_that_share_the_port_are_all_found() -> None:
    with Ras(job(1, rank(0, 11), rank(1, 12))) as first, Ras(job(2, rank(0, 21)), port=first.address[1]) as second:
        found = eventually(
            lambda: {item.communicator_id for item in ask_all(asking(first, 11, 12, 21))},  # the kernel throws a coin
            lambda found: len(found) == 2,
        )
    assert found == {f"{1:016x}", f"{2:016x}"}
    assert first.asked
    assert second.asked


def test_jobs_of_others_are_left_out_and_pids_of_other_machines_too() -> None:
    with Ras(job(1, rank(0, 11), rank(1, 12, host=AWAY))) as ras:
        (found,) = ask_all(asking(ras, 11, 12))
        assert ask_all(asking(ras, 4711)) == ()
        assert ask_all(asking(ras, 12)) == (), "that is a PID of another machine"
    assert [(item.rank, item.pid, item.hostname) for item in found.ranks] == [(0, 11, HERE), (1, None, AWAY)]


def test_a_stopped_process_among_those_that_share_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras, "HANDSHAKE_S", 0.05)
    monkeypatch.setattr(ras, "MAX_WITHOUT_NEWS", 16)
    with Ras(job(1, rank(0, 11))) as answering, Ras("", port=answering.address[1], silent=True):
        (found,) = eventually(lambda: ask_all(asking(answering, 11)), bool)
    assert found.ranks[0].pid == 11


def test_a_missing_ras_service_is_not_an_error() -> None:
    with Ras("") as gone:
        pass
    assert ask_all(asking(gone, 11)) == ()


@pytest.mark.parametrize("answer", ["", "Internal error\n", '{"nccl_version": "3"}', "[]", "{"])
def test_what_nccl_did_not_send_is_rejected(answer: str) -> None:
    with Ras(answer) as ras, pytest.raises(RasError):
        ask_once(ras.address)


def test_another_service_at_that_port_is_left_alone() -> None:
    listening = socket.create_server((HERE, 0))

    def greet() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"220 mail.example.org ESMTP\r\n")
            connection.recv(1024)

    server = threading.Thread(target=greet)
    server.start()
    with listening, pytest.raises(RasError, match="not NCCL"):
        ask_once(listening.getsockname()[:2])
    server.join()


MISMATCH = """NCCL version 2.27.7 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          4            1          4        4

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         4         4         4   RUNNING  MISMATCH
    1         2         1         2         2         4   RUNNING      OK

Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 6650
  Rank 2 has launched up to operation 6649 -- GPU 0 (NVML 2) managed by process 483074 on node 127.0.0.1

  Communicator ranks have different Broadcast operation counts
  2 ranks have launched up to operation 4
  2 ranks have not launched any operations
  Rank 0 -- GPU 0 managed by process 483072 on node 127.0.0.1
  Rank 1 -- GPU 1 managed by process 483073 on node 127.0.0.1

"""


def test_text_lists_the_ranks_that_stand_out_and_the_rest_follows() -> None:
    answer = parse_text(MISMATCH)
    assert answer.nccl_version == "2.27.7"
    (found,) = answer.communicators
    assert (found.communicator_id, found.size) == ("27a079b828ff1a75", 4)
    assert [(item.rank, item.pid, item.nvml_index) for item in found.ranks] == [
        (0, 483072, 0),
        (1, 483073, 1),
        (2, 483074, 2),
        (3, None, None),
    ]
    assert [dict(item.counts) for item in found.ranks] == [
        {"AllReduce": 6650, "Broadcast": 0},
        {"AllReduce": 6650, "Broadcast": 0},
        {"AllReduce": 6649, "Broadcast": 4},
        {"AllReduce": 6650, "Broadcast": 4},
    ]


INCOMPLETE = """NCCL version 2.26.2 compiled with CUDA 12.8

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2       1-2         4         4   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 71 on node 127.0.0.1 managing GPU 1

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 72 on node 127.0.0.1 managing GPU 2

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 2 ranks
  Rank 1 -- GPU 1 managed by process 71 on node 127.0.0.1
  Rank 2 -- GPU 2 managed by process 72 on node 127.0.0.1

#0-0 (cf264af53edbe986) ERROR
  Asynchronous error on 1 rank
  Rank 3 reported Remote process error -- GPU 3 managed by process 73 on node 127.0.0.1

Warnings
========

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different status
  Rank 0 has status FINALIZE -- GPU 0 managed by process 70 on node 127.0.0.1
"""


def test_text_lists_missing_dead_and_failing_ranks() -> None:
    (found,) = parse_text(INCOMPLETE).communicators
    assert [(item.rank, item.pid, item.state, item.async_error) for item in found.ranks] == [
        (0, 70, "finalize", None),
        (1, 71, "missing", None),
        (2, 72, "dead", None),
        (3, 73, None, "remote process error"),
    ]
    (old,) = parse_text(
        "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 21\n"
    ).communicators
    assert [(item.rank, item.state) for item in old.ranks] == [(21, "missing")]
    assert parse_text("NCCL version 2.24.3 compiled with CUDA 12.6\n\nNo communicator data collected!\n").communicators == ()


def test_an_older_nccl_is_asked_in_text() -> None:
    with Ras(MISMATCH, speaks_json=False) as ras:
        (found,) = ask_all(asking(ras, 483074))
    assert found.ranks[2].counts["AllReduce"] == 6649


def test_only_processes_with_nccl_are_asked_each_at_its_own_address() -> None:
    plain = Process(pid=1, threads=(("pt_autograd_0", 1), ("pt_gloo_runloop", 2)))
    assert question_about([plain]).addresses == ()
    assert question_about([Process(pid=2, torch_cuda_mapped=True)]) == Question((DEFAULT_ADDRESS,), frozenset(), frozenset({2}))
    named = Process(pid=3, threads=(("NCCL Service", 1),))
    question = question_about([plain, named, using(4, NCCL_RAS_ADDR="127.0.0.1:9"), using(5, NCCL_RAS_ENABLE="0")])
    assert question == Question((DEFAULT_ADDRESS, ("127.0.0.1", 9)), frozenset({3, 4}), frozenset({1, 3, 4, 5}))
    assert address_of("[::1]:28029") == ("::1", 28029)
    assert [address_of(text) for text in ("", "eth0", "here:there", "1.2.3.4:99999", None)] == [DEFAULT_ADDRESS] * 5


def test_an_address_of_another_machine_is_never_asked() -> None:
    def never(address: tuple[str, int]) -> Any:
        raise AssertionError(address)

    assert ask_all(Question(((AWAY, 28028),), frozenset({1}), frozenset({1})), never) == ()


def test_the_watch_never_waits_and_follows_what_nccl_says() -> None:
    with Ras(job(1, rank(0, 11, all_reduce=1))) as ras:
        watch = RasWatch(every_s=0.01, reaches_only=lambda port, pids: True)
        process = using(11, NCCL_RAS_ADDR=f"{HERE}:{ras.address[1]}")
        assert watch.poll([process]) == ()
        eventually(lambda: watch.poll([process]), bool, pause_s=0.01)
        ras.answer = job(1, rank(0, 11, all_reduce=2))
        eventually(
            lambda: watch.poll([process]), lambda found: found and found[0].ranks[0].counts["AllReduce"] == 2, pause_s=0.01
        )
        assert watch.poll([Process(pid=11)]) == ()
    eventually(lambda: watch.poll([process]), lambda found: not found, pause_s=0.01)
    watch.close()


def test_without_nccl_there_is_no_thread() -> None:
    before = set(threading.enumerate())
    assert RasWatch().poll([Process(pid=1, threads=(("pt_autograd_0", 1),))]) == ()
    assert set(threading.enumerate()) <= before
