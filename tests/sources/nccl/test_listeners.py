"""Who listens where NCCL's RAS service is asked: real sockets of real processes, which share a port as NCCL's do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from gputop.process import LaunchEnvironment, Process
from gputop.sources.nccl.listeners import only_these_listen
from gputop.sources.nccl.ras import RasWatch
from tests.real_processes import eventually
from tests.sources.nccl.test_ras import Ras, job, rank

LISTENS = """
import socket, sys, time
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family) as service:
    service.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    service.bind((sys.argv[1], int(sys.argv[2])))
    service.listen()
    print("listens", flush=True)
    time.sleep(600)
"""


@contextmanager
def listener(port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """Start a process that listens at a port; yield its PID."""
    with subprocess.Popen([sys.executable, "-c", LISTENS, host, str(port)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"listens\n"
            yield process.pid
        finally:
            process.kill()


def test_a_process_that_listens_unknown_is_noticed() -> None:
    with Ras("") as service:
        port, ours = service.address[1], os.getpid()
        assert only_these_listen(port, {ours})
        assert not only_these_listen(port, set())
        for host in ("127.0.0.1", "::"):
            with ExitStack() as stack:
                try:
                    other = stack.enter_context(listener(port, host))
                except AssertionError:
                    continue  # this machine has no IPv6
                assert not only_these_listen(port, {ours})
                assert only_these_listen(port, {ours, other})
        assert only_these_listen(port, {ours})
    assert only_these_listen(port, set()), "nobody is there to be disturbed"


def test_what_cannot_be_known_is_not_known(tmp_path: Path) -> None:
    assert only_these_listen(28028, {1}, tmp_path), "nothing listens"
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text("sl local_address\n 0: 0100007F:6D7C 00000000:0000 0A 0 0 0 0 0 77 1\n")
    assert not only_these_listen(28028, {1}, tmp_path)
    assert only_these_listen(28029, {1}, tmp_path)
    (tmp_path / "net" / "tcp6").write_text("sl local_address\n 0: 0100007F:6D7C 0100007F:9C40 06 0 0 0 0 0 0 3\n")
    (tmp_path / "1" / "fd").mkdir(parents=True)
    (tmp_path / "1" / "fd" / "3").symlink_to("socket:[77]")
    assert only_these_listen(28028, {1}, tmp_path)
    (tmp_path / "net" / "tcp").write_text("sl local_address\n 0: 0100007F:oops 00000000:0000 0A 0 0 0 0 0 77 1\n")
    assert not only_these_listen(28028, {1}, tmp_path)


@pytest.mark.parametrize("shares", [False, True])
def test_a_process_is_asked_only_where_no_other_can_answer(shares: bool) -> None:
    with Ras(job(1, rank(0, os.getpid()))) as service, ExitStack() as stack:
        if shares:
            stack.enter_context(listener(service.address[1]))
        settings = LaunchEnvironment(settings=(("NCCL_RAS_ADDR", f"127.0.0.1:{service.address[1]}"),))
        process = Process(os.getpid(), threads=(("pt_nccl_watchdg", 1),), environment=settings)
        watch = RasWatch(every_s=0.01)
        try:
            watch.poll([process])
            if shares:
                for _ in range(20):
                    time.sleep(0.05)
                    assert watch.poll([process]) == ()
                assert service.asked == 0
            else:
                eventually(lambda: watch.poll([process]), bool, pause_s=0.01)
        finally:
            watch.close()


def test_the_port_of_these_tests_is_shared() -> None:
    """Else they would prove nothing."""
    with Ras("") as service, listener(service.address[1]), socket.create_connection(service.address):
        pass
