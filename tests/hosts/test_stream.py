"""One stream a host, over a real sshd or any other command: what is told, what comes back, and what is never trusted."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import gputop
from gputop.agent import lines
from gputop.clocks import Compared
from gputop.errors import UsageError
from gputop.hosts import budget, connection, retries
from gputop.hosts import stream as stream_module
from gputop.hosts.feed import feeds_of
from gputop.hosts.fleet import Fleet, read_once
from gputop.hosts.following import links_by
from gputop.hosts.stream import BAD_LINES_MAX, Heard, HostStream
from gputop.hosts.transport import SSH, STREAM, Transport, transport_of
from gputop.process import ProcessAnswer, ProcessQuestion
from gputop.questions import Misunderstood
from gputop.snapshot import Snapshot
from tests import REPOSITORY, samples
from tests.hosts.machines.sshd import DEADLINE_S, Lab, gputop_there, lab, needs_sshd, sessions_of

assert lab

ONCE = ("--once", "--json", "--virtual", "1", "--no-nccl-ras")
AGENT = ("agent", "-i", "200ms", "--virtual", "1", "--no-nccl-ras")
HERE = "env GPUTOP_TEST_HOST={host}"
"""Stands for ``kubectl exec -i {host} --``: a command that passes bytes to a shell and back."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for tenths of seconds where a stream waits for seconds."""
    monkeypatch.setattr(retries, "BACKOFF_S", (0.2,))
    monkeypatch.setattr(stream_module, "LATE_S", 60.0)  # a busy machine is no slow host
    monkeypatch.setattr(stream_module, "MUTE_S", 60.0)
    monkeypatch.setattr(lines, "POLL_S", 0.05)


class Followed:
    """A stream, and all that it has said."""

    def __init__(self, host: str, transport: Transport, arguments: tuple[str, ...] = AGENT) -> None:
        self.heard: list[Heard] = []
        self.stream = HostStream(host, transport, arguments, self.heard.append)
        self.stream.start()

    @property
    def states(self) -> list[str]:
        """The states in their order."""
        found = [heard.status.state for heard in list(self.heard)]
        return [state for place, state in enumerate(found) if not place or state != found[place - 1]]

    @property
    def sequences(self) -> list[int]:
        return [heard.snapshot.sequence for heard in list(self.heard) if heard.snapshot is not None]

    def until(self, happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not happened():
            assert time.monotonic() < deadline, (self.states, self.sequences, self.stream.status)
            time.sleep(0.02)


@pytest.fixture
def follow() -> Iterator[Callable[..., Followed]]:
    """Follow hosts until the test ends."""
    followed: list[Followed] = []

    def start(*arguments: object) -> Followed:
        followed.append(Followed(*arguments))  # type: ignore[arg-type]
        return followed[-1]

    yield start
    for one in followed:
        one.stream.close()


@pytest.fixture
def python_there(tmp_path: Path) -> Callable[[str], Transport]:
    """A transport to a "host" where Python code stands for gputop; ``line`` is a snapshot."""

    def make(code: str, greeting: str = HERE) -> Transport:
        line = samples.snapshot(7).to_json()
        script = tmp_path / "gputop.py"
        script.write_text(f"import sys, time\nline = {line!r}\n{code}\n")
        return transport_of(greeting, shlex.join([sys.executable, "-u", str(script)]))

    return make


@needs_sshd
def test_each_host_is_read_or_says_why_not(lab: Lab, tmp_path: Path) -> None:
    names = ("a", "b", "behind", "stranger", "changed", "denied", "refusing", "mute", "no..such")
    found = {heard.status.host: heard for heard in read_once(names, transport_of(lab.via, gputop_there(tmp_path)), ONCE)}
    assert {name: heard.status.state for name, heard in found.items()} == {
        **dict.fromkeys(("a", "b", "behind"), "live"),
        "stranger": "unknown_host_key",
        "changed": "changed_host_key",
        "denied": "permission_denied",
        "refusing": "refused",
        "mute": "timed_out",
        "no..such": "not_resolved",
    }
    assert f"ssh -F {lab.config} stranger" in str(found["stranger"].status.hint)
    for name in ("a", "b", "behind"):
        snapshot = found[name].snapshot
        assert snapshot is not None
        assert [device.kind for device in snapshot.devices] == ["virtual"]
        assert snapshot.devices[0].utilization_percent is not None
        assert -60 < (found[name].status.clock_offset_s or -99) <= 0
    assert not (lab.folder / "none").exists(), "the key of a host was accepted for the user"


@needs_sshd
def test_plain_ssh_reaches_a_host_and_says_that_gputop_is_missing(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The user's ssh with a configuration of its own: one cannot name another home to ssh.
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {lab.config} "$@"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    hosts = ["a", f"127.0.0.1:{lab.ports['b']}"]
    for heard in read_once(hosts, transport_of(remote="/nonexistent/gputop"), ONCE):
        assert heard.status.state == "no_gputop", heard.status
        assert "--remote" in str(heard.status.hint)


def test_gputop_is_found_where_people_install_it(tmp_path: Path) -> None:
    there = tmp_path / "a home" / ".local" / "bin" / "gputop"
    there.parent.mkdir(parents=True)
    there.write_text(f"#!/bin/sh\necho '{samples.snapshot(7).to_json()}'\n")
    there.chmod(0o755)
    bare = f"env HOME={shlex.quote(str(tmp_path / 'a home'))} PATH=/usr/bin:/bin GPUTOP_TEST_HOST={{host}}"
    (heard,) = read_once(["a"], transport_of(bare), ONCE)
    assert heard.snapshot == samples.snapshot(7)


@needs_sshd
def test_a_lost_connection_comes_back(lab: Lab, tmp_path: Path, follow: Callable[..., Followed]) -> None:
    followed = follow("a", transport_of(lab.via, gputop_there(tmp_path)))
    followed.until(lambda: len(followed.sequences) > 2)
    process = followed.stream._connection.process
    assert process is not None
    process.send_signal(signal.SIGKILL)
    followed.until(lambda: "ended" in followed.states)
    followed.until(lambda: followed.sequences.count(0) == 2)
    assert followed.states == ["connecting", "live", "ended", "live"]
    assert followed.stream.status.message is None


TALKS_AND_ENDS = "for _ in range({lines}):\n    print(line)\n    time.sleep(0.02)\n"


@pytest.mark.parametrize(("lines", "grows"), [(30, False), (1, True)], ids=["after readings", "after a single one"])
def test_only_readings_that_last_make_the_next_failure_the_first(
    lines: int,
    grows: bool,
    follow: Callable[..., Followed],
    python_there: Callable[..., Transport],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retries, "HEALTHY_S", 0.3)
    followed = follow("a", python_there(TALKS_AND_ENDS.format(lines=lines)))
    followed.until(lambda: followed.states.count("ended") == 4)
    assert followed.stream.failures == (4 if grows else 1)


def test_a_host_that_was_read_is_tried_again_soon_however_long_it_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "BACKOFF_S", (1.0, 2.0, 4.0, 8.0, 60.0))
    account = retries.Retries()

    def waits(count: int) -> list[float]:
        found = []
        for _ in range(count):
            account.note_end()
            found.append(account.wait_s("timed_out", is_behind_another=False))
        return found

    assert waits(6) == [1.0, 2.0, 4.0, 8.0, 60.0, 60.0]
    account.note_reading(100.0)
    account.note_reading(200.0)
    assert waits(6) == [1.0, 2.0, 4.0, *[retries.KNOWN_MOST_S] * 3]
    assert account.wait_s("timed_out", is_behind_another=True) == 60.0, "its jump host bears the attempts"
    assert account.wait_s("permission_denied", is_behind_another=False) == 60.0
    account.note_start()
    assert waits(1) == [60.0], "it is there, and gputop ends at once: each attempt is a login"
    assert waits(1) == [60.0]


@needs_sshd
def test_a_host_with_too_many_logins_says_so_and_is_read_once_there_is_room(
    lab: Lab, tmp_path: Path, follow: Callable[..., Followed]
) -> None:
    with socket.create_connection(("127.0.0.1", lab.ports["crowded"])) as waiting:
        assert waiting.recv(4) == b"SSH-", "its place is taken"
        followed = follow("crowded", transport_of(lab.via, gputop_there(tmp_path)))
        followed.until(lambda: followed.stream.status.state == "busy")
        assert "MaxStartups" in str(followed.stream.status.hint)
    followed.until(lambda: followed.sequences)
    assert followed.states == ["connecting", "busy", "live"]


@needs_sshd
def test_a_pulled_connection_leaves_the_others_current_and_comes_back(lab: Lab, tmp_path: Path) -> None:
    fleet = Fleet(links_by(("a", "b"), transport_of(lab.via, gputop_there(tmp_path)), AGENT))
    fleet.start()
    heard: list[tuple[str, str, int]] = []

    def until(happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not happened():
            assert time.monotonic() < deadline, heard
            one = fleet.take(0.1)
            if one is not None and one.snapshot is not None:
                heard.append((one.status.host, one.status.state, one.snapshot.sequence))

    try:
        until(lambda: {host for host, _, _ in heard} == {"a", "b"})
        before = len(heard)
        sessions = sessions_of(lab.servers[0].pid)
        assert sessions
        for pid in sessions:
            os.kill(pid, signal.SIGKILL)
        until(lambda: ("a", "live", 0) in heard[before:])  # a stream of its own, from the beginning
        until(lambda: heard[-1][0] == "b")
        assert [state for host, state, _ in heard if host == "b"] == ["live"] * len([1 for host, _, _ in heard if host == "b"])
        numbers = [number for host, _, number in heard if host == "b"]
        assert numbers == list(range(len(numbers))), "a reading of b is missing"
        assert len(numbers) > 1
    finally:
        fleet.close()


SOME_ANSWER = "sh -c 'case $1 in silent*) exec sleep 600;; esac; shift; exec \"$@\"' - {host}"
"""A command to hosts of which those named silent never answer."""


def test_hosts_that_do_not_answer_hold_up_no_other(
    monkeypatch: pytest.MonkeyPatch, python_there: Callable[..., Transport]
) -> None:
    """Half of a cluster may be down, and its names come first."""
    monkeypatch.setattr(stream_module, "CONNECT_S", 1e9)
    monkeypatch.setattr(stream_module, "TURN_S", 0.1)
    silent = [f"silent{number}" for number in range(connection.CONNECTING_MOST)]
    fleet = Fleet(links_by([*silent, "a"], python_there("print(line)\nsys.stdin.read()", SOME_ANSWER), AGENT))
    fleet.start()
    try:
        deadline = time.monotonic() + DEADLINE_S
        while (heard := fleet.take(0.1)) is None or heard.snapshot is None:
            assert time.monotonic() < deadline
        assert heard.status.host == "a"
    finally:
        fleet.close()


@needs_sshd
def test_only_hosts_behind_others_wait_for_one_another(lab: Lab) -> None:
    transport = transport_of(lab.via)
    assert not transport.is_behind_another("a")
    assert transport.is_behind_another("behind")
    assert not transport_of(HERE).is_behind_another("behind")


def test_no_process_is_left_on_the_host(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    followed = follow("a", transport_of(HERE, gputop_there(tmp_path)), (*AGENT[:2], "1h", *AGENT[3:]))
    followed.until(lambda: followed.sequences)
    process = followed.stream._connection.process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()  # as sshd closes it when the connection is gone
    process.wait(DEADLINE_S)


@needs_sshd
def test_a_screen_asks_and_sets_the_interval_there(lab: Lab, tmp_path: Path) -> None:
    (feed,) = feeds_of(links_by(["a"], transport_of(lab.via, gputop_there(tmp_path)), AGENT))
    seen: list[Snapshot] = []
    answers: list[object] = []
    came = threading.Event()
    feed.start(came.set)
    feed.set_interval(0.3)

    def until(happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not happened():
            assert time.monotonic() < deadline, (feed.problem(), seen, answers)
            came.wait(0.1)
            came.clear()
            seen.extend(feed.drain())
            answers.extend(feed.take_answers())

    try:
        until(lambda: seen and seen[-1].interval_s == 0.3)
        feed.ask(ProcessQuestion(os.getpid()))
        until(lambda: answers)
        (answer,) = answers
        assert isinstance(answer, ProcessAnswer)
        assert answer.details is not None
        assert feed.problem() is None
    finally:
        feed.close()


def test_the_clock_of_a_host_is_compared_by_question_and_answer(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    there = tmp_path / "gputop there.py"
    there.write_text(
        "import sys, time\n"
        "ours = time.time\n"
        "time.time = lambda: ours() + 75.0\n"
        "from gputop.__main__ import main\n"
        "sys.exit(main())\n"
    )
    remote = shlex.join(["env", f"GPUTOP_DIR={tmp_path}", f"PYTHONPATH={REPOSITORY}", sys.executable, str(there)])
    # What comes back is slow, what goes there is not.
    late = f"""{remote} "$@" | while IFS= read -r line; do sleep 0.3; printf '%s\\n' "$line"; done"""
    # Fewer lines than it passes on: else the answer waits behind more and more of them.
    slow = follow("slow", transport_of(HERE, shlex.join(["sh", "-c", late, "sh"])), ("agent", "-i", "2s", *AGENT[3:]))
    quick = follow("quick", transport_of(HERE, remote))
    for followed in (slow, quick):
        followed.until(lambda status=followed: status.stream.status.clock_error_s is not None)
        status = followed.stream.status
        assert status.clock_offset_s is not None
        assert status.clock_error_s is not None
        assert abs(status.clock_offset_s - 75.0) <= status.clock_error_s + 0.001, "the truth is within"
    assert (slow.stream.status.clock_error_s or 0.0) >= 0.15


def test_a_login_may_talk_before_and_gputop_between(
    follow: Callable[..., Followed], python_there: Callable[..., Transport]
) -> None:
    greeting = "sh -c 'echo Welcome; echo; exec \"$@\"' {host}"
    followed = follow("a", python_there("print('warning: old driver')\nprint(line)\nsys.stdin.read()", greeting))
    followed.until(lambda: followed.sequences == [7])
    assert followed.states == ["connecting", "live"]


BAD_HOSTS = {
    "rubbish": ("while True: print('x' * 70); time.sleep(0.001)", "unreadable", "not a gputop stream"),
    "flood": ("while True: print(line)", "live flooding", "sends more than gputop reads"),
    "endless line": ("while True: sys.stdout.write('x' * 65536)", "unreadable", "a line without an end"),
    "newer": ("print(line.replace('_version\":1', '_version\":9')); sys.stdin.read()", "newer_gputop", "there is newer"),
    "older": ("sys.stderr.write('gputop: Unrecognized arguments: --x.'); sys.exit(2)", "older_gputop", "does not know"),
    "failing": ("sys.stderr.write('gputop: \x1b[2JNo GPU 9.'); sys.exit(1)", "failed", "ended there: No GPU 9."),
    "errors without end": (
        "import os; os.close(1); time.sleep(0.3)\nwhile True: sys.stderr.write('\x1b[2Jx' * 9999 + '\\n')",
        "unreadable",
        "xxxxx",
    ),
    "silent": ("print(line); time.sleep(600)", "live slow mute", "has sent nothing for"),
    "silent from the start": ("time.sleep(600)", "timed_out", "has sent nothing for"),
}
"""What a host does -> Python code that does it, the states that follow, and words of the last one's message."""


@pytest.mark.parametrize("does", BAD_HOSTS)
def test_a_host_that_sends_what_it_should_not(
    does: str, follow: Callable[..., Followed], python_there: Callable[..., Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, states, words = BAD_HOSTS[does]
    monkeypatch.setattr(stream_module.checked, "LINE_MAX_BYTES", 1 << 20)
    if does == "silent":
        for name, value in (("LATE_INTERVALS", 0.1), ("LATE_S", 0.1), ("MUTE_S", 0.5)):
            monkeypatch.setattr(stream_module, name, value)
    if does == "silent from the start":
        monkeypatch.setattr(stream_module, "START_S", 1.0)
    monkeypatch.setattr(retries, "BACKOFF_S", (60.0,))
    monkeypatch.setattr(budget, "SAVED_S", 0.2)
    followed = follow("a", python_there(code))
    followed.until(lambda: followed.states[-1:] == states.split()[-1:])
    assert followed.states == ["connecting", *states.split()]
    message = str(followed.stream.status.message)
    assert words in message
    assert message.isprintable()


ANOTHER_VERSION = """
line = line.replace('"gputop_version":null', '"gputop_version":"9.1.0"')
while True:
    print(line)
    print(answer)
    time.sleep(0.05)
"""


@pytest.mark.parametrize("answer", ['{"runs_answer":{"question":7}}', '{"misunderstood":{"what":"weather"}}'])
def test_a_gputop_of_another_version_that_is_not_understood_is_named(
    answer: str, follow: Callable[..., Followed], python_there: Callable[..., Transport]
) -> None:
    """A screen waited without a word for what it had asked."""
    followed = follow("node9", python_there(f"answer = {answer!r}\n{ANOTHER_VERSION}"))

    def found() -> list[Misunderstood]:
        return [heard.answer for heard in list(followed.heard) if isinstance(heard.answer, Misunderstood)]

    followed.until(lambda: len(found()) > BAD_LINES_MAX)
    assert followed.states == ["connecting", "live"]
    assert found()[-1].what in ("runs_answer", "weather")
    assert found()[-1].why == (
        "gputop on node9 and here do not understand each other: there it is version 9.1.0, here version "
        f"{gputop.__version__}. Install the same version on both machines."
    )


FLOODS_ERRORS = """
import threading
def flood():
    while True: sys.stderr.write("x" * 65536)
threading.Thread(target=flood, daemon=True).start()
while True:
    print(line)
    time.sleep(0.05)
"""


def test_a_host_that_writes_errors_without_end_has_to_wait(
    follow: Callable[..., Followed], python_there: Callable[..., Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "ERRORS_EVERY_S", 3600.0)
    taken: list[int] = []
    drain = lines.ChildLines._drain_errors
    monkeypatch.setattr(lines.ChildLines, "_drain_errors", lambda self: (taken.append(self._errors_bytes), drain(self)))
    followed = follow("a", python_there(FLOODS_ERRORS))
    followed.until(lambda: len(followed.sequences) > 20)
    assert taken
    assert max(taken) <= lines.ERRORS_AT_ONCE_BYTES
    assert "ended" not in followed.states


HEAVY = """
import json
whole = json.loads(line)
whole["processes"] *= 4000 // len(whole["processes"])
heavy = json.dumps(whole)
while True: print(heavy)
"""
"""Each line is right, and takes long to decode."""


def test_a_host_that_sends_more_than_its_share_is_read_slowly_and_the_others_are_current(
    tmp_path: Path, python_there: Callable[..., Transport], monkeypatch: pytest.MonkeyPatch, follow: Callable[..., Followed]
) -> None:
    monkeypatch.setattr(budget, "SAVED_S", 0.2)
    flooding = follow("a", python_there(HEAVY))
    other = follow("b", transport_of(HERE, gputop_there(tmp_path / "other")))
    flooding.until(lambda: flooding.states[-1] == "flooding")
    other.until(lambda: len(other.sequences) > 1)
    came = len(other.sequences)
    other.until(lambda: len(other.sequences) > came + 10)
    assert flooding.states == ["connecting", "live", "flooding"]
    assert "sends more than gputop reads" in flooding.stream.status.sentence
    assert "a: sends too much." in flooding.stream.status.sentence
    assert "flooding" not in other.states


def test_a_login_that_prints_without_end_is_given_up(follow: Callable[..., Followed]) -> None:
    followed = follow("a", transport_of("yes {host}"))
    followed.until(lambda: followed.states[-1] == "unreadable")
    assert followed.stream.status.message == "Its login prints without end."


def test_a_host_may_take_only_a_share_of_the_time() -> None:
    now = [0.0]
    account = budget.Budget(lambda: now[0])
    began = spent = 0.0
    for _ in range(200):
        spent += 0.5
        now[0] += 0.5 + account.spend(0.5)
        began = began or (now[0] if account.is_over else 0.0)
    assert spent <= budget.SAVED_S + budget.SHARE * now[0]
    assert began
    now[0] += budget.CALM_S + 1.0
    assert not account.is_over
    calm = budget.Budget(lambda: now[0])
    for _ in range(1000):
        now[0] += 1.0
        assert calm.spend(0.02) == 0.0, "8 busy GPUs, once a second"


def test_our_own_error_in_reading_a_host_is_reported_and_the_host_retried(
    follow: Callable[..., Followed], python_there: Callable[..., Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_once(line: bytes) -> Snapshot:
        monkeypatch.undo()
        raise RuntimeError("boom")

    monkeypatch.setattr(stream_module.checked, "snapshot_in", break_once)
    followed = follow("a", python_there("print(line)\nsys.stdin.read()"))
    followed.until(lambda: followed.sequences)
    assert followed.states == ["connecting", "failed", "live"]
    assert any("RuntimeError: boom" in str(heard.status.message) for heard in followed.heard)


@pytest.mark.parametrize("via", ["", "ssh node", "'", "no-such-program-here {host}"])
def test_a_template_that_cannot_work_is_refused(via: str) -> None:
    with pytest.raises(UsageError):
        transport_of(via)


def test_the_default_is_ssh_as_the_user_knows_it() -> None:
    ssh = transport_of()
    words = ssh.login("me@node")
    assert words[-len(SSH.split()) + 1 :] == SSH.format(host="me@node").split()[1:]
    assert words[1 : -len(SSH.split()) + 1] == [f"-o{option}" for option in STREAM]
    assert ssh.login("me@node:2222")[-3:] == ["-p", "2222", "me@node"]
    assert ssh.shown_login("me@node:2222") == "ssh -p 2222 me@node"
    assert "StrictHostKeyChecking" not in SSH


def test_a_reading_that_waited_is_dated_by_the_clock_of_its_host() -> None:
    heard: list[Heard] = []
    stream = HostStream("a", transport_of(HERE), (), heard.append)
    stream._clock._kept.append(Compared(1000.0, 0.01))
    made = replace(samples.snapshot(), time=time.time() + 1000.0 - 75.0)
    stream._take(made.to_json().encode())
    assert heard[-1].status.last_heard_at == pytest.approx(made.time - 1000.0, abs=0.001)


def test_a_line_that_waited_in_the_pipe_compares_no_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "HELD_UP_S", 0.0)
    stream = HostStream("a", transport_of(HERE), (), lambda heard: time.sleep(0.01))

    def offset_s(ahead_s: float, interval_s: float) -> float:
        made = replace(samples.snapshot(), time=time.time() + ahead_s, interval_s=interval_s)
        monkeypatch.setattr(stream_module.checked, "snapshot_in", lambda line: made)
        stream._take(b"{}")
        assert stream.status.clock_offset_s is not None
        return stream.status.clock_offset_s

    first = offset_s(-500.0, 3600.0)
    assert -530 < first <= -500
    assert offset_s(0.0, 3600.0) == first, "the screen took its time for the one before"
    assert offset_s(0.0, 0.0) > first, "this one was waited for"


def test_lines_are_decoded_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many threads that decode leave the thread of the screen almost no turn at the interpreter."""
    streams = [HostStream(f"node{number}", transport_of(HERE), (), lambda heard: None) for number in range(8)]
    decoding, most = [0], [0]

    def snapshot_in(line: bytes) -> Snapshot:
        decoding[0] += 1
        most[0] = max(most[0], decoding[0])
        time.sleep(0.02)
        decoding[0] -= 1
        return samples.snapshot()

    monkeypatch.setattr(stream_module.checked, "snapshot_in", snapshot_in)
    with ThreadPoolExecutor(len(streams)) as pool:
        assert list(pool.map(lambda stream: stream._take(b"{}"), streams)) == [samples.snapshot().interval_s] * len(streams)
    assert most == [1]
