"""When logins are asked for, in which order and until when, without a terminal and without a host."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from gputop.hosts import logins as logins_module
from gputop.hosts.logins import Logins
from gputop.hosts.masters import Outcome
from gputop.hosts.state import Failure
from gputop.hosts.transport import Transport
from tests.patience import DEADLINE_S

FOREVER_S = 3600.0
DENIED = Failure("permission_denied", "It refuses the login.", "See what is missing: ssh a")


class Hosts:
    """The threads of hosts, as ``Logins`` sees them."""

    def __init__(self, logins: Logins) -> None:
        self.logins = logins
        self.closed = threading.Event()
        self.told: dict[str, Failure | None] = {}
        """Host -> what its thread was last told: the failure to report, or None to try again."""
        self.refuse_again: set[str] = set()
        """Hosts that refuse the next try, too."""
        self._threads: list[threading.Thread] = []

    def refuse(self, *hosts: str) -> None:
        """Have these hosts refuse a login, each in its own thread, one after another."""
        for host in hosts:
            thread = threading.Thread(target=self._refuse, args=(host,), daemon=True)
            self._threads.append(thread)
            thread.start()
            self._until(lambda host=host: host in self.logins._refused or host in self.told)  # type: ignore[misc]

    def _refuse(self, host: str) -> None:
        told = self.logins.refused(host, DENIED, self.closed)
        if told is None and host in self.refuse_again:
            told = self.logins.refused(host, DENIED, self.closed)
        self.told[host] = told
        self.logins.settled(host)

    def _until(self, happened: Callable[[], bool]) -> None:
        deadline = threading.Event()
        for _ in range(int(DEADLINE_S / 0.005)):
            if happened():
                return
            deadline.wait(0.005)
        raise AssertionError(self.told)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive(), "a host waits for ever"


class Asked:
    """Logins whose user answers with one outcome after another; ``hosts`` are those that were asked for."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *outcomes: Outcome, jumps: dict[str, str] | None = None, **kind: bool
    ) -> None:
        self.logins = Logins(Transport(("ssh", "{host}")), **kind)
        self.hosts: list[str] = []
        self.others = Hosts(self.logins)
        self.then: dict[str, Callable[[], object]] = {}
        """What happens while the user answers for a host."""
        self.said: list[str] = []
        coming: Iterator[Outcome] = itertools.chain(outcomes, itertools.repeat("failed"))

        def log_in(host: str) -> Outcome:
            self.hosts.append(host)
            self.then.get(host, lambda: None)()
            return next(coming)

        masters = self.logins._masters
        through: set[str] = set()

        def go_through(jump: str, host: str) -> bool:
            is_new = host not in through
            through.add(host)
            return is_new

        monkeypatch.setattr(masters, "log_in", log_in)
        monkeypatch.setattr(masters, "log_in_jump", log_in)
        monkeypatch.setattr(masters, "jump_of", (jumps or {}).get)
        monkeypatch.setattr(masters, "go_through", go_through)
        monkeypatch.setattr(logins_module, "say", self.said.append)

    def ask(self, refused: Sequence[str], connecting: Sequence[str] = ()) -> list[str]:
        """Ask, and return the hosts that the user was asked for."""
        self.others.refuse(*refused)
        self.logins.ask([*refused, *connecting])
        self.others.join()
        return self.hosts


Asking = Callable[..., Asked]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Asking:
    monkeypatch.setattr(logins_module, "has_terminal", lambda: True)
    monkeypatch.setattr(logins_module, "WAIT_S", FOREVER_S)
    monkeypatch.setattr(logins_module, "QUIET_S", FOREVER_S)
    return lambda *outcomes, **more: Asked(monkeypatch, *outcomes, **more)


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def test_each_host_asks_for_its_login_once_and_the_result_is_shown(asking: Asking) -> None:
    asked = asking("logged in", "failed")
    assert asked.ask(["a", "b"]) == ["a", "b"]
    assert asked.others.told == {"a": None, "b": DENIED}
    assert asked.ask(["a"]) == ["a", "b"], "a later command on the same connection asks nothing"
    assert asked.others.told["a"] == DENIED


def test_hosts_that_are_denied_during_a_question_are_asked_for_too(asking: Asking) -> None:
    asked = asking(live=True)
    asked.then = {f"n{number}": lambda number=number: asked.others.refuse(f"n{number + 1}") for number in range(4)}  # type: ignore[misc]
    assert asked.ask(["n0"], names(5)[1:]) == names(5)


def test_a_host_that_was_busy_is_asked_for_once_it_refuses(asking: Asking) -> None:
    asked = asking()
    asked.logins.settled("busy")
    asked.then = {"a": lambda: asked.others.refuse("busy")}
    assert asked.ask(["a"], ["busy"]) == ["a", "busy"]


def test_a_command_that_prints_at_its_end_waits_for_every_host(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins_module, "WAIT_S", 0.0)
    monkeypatch.setattr(logins_module, "QUIET_S", 0.0)
    asked = asking()
    late = threading.Timer(0.3, lambda: asked.others.refuse("late"))
    late.start()
    assert asked.ask([], ["late"]) == ["late"]
    asked = asking(live=True)
    assert asked.ask([], ["late"]) == []
    assert asked.said == ["gputop: no answer yet from late. If a login there asks something, start gputop again."]


def test_a_host_that_is_silent_holds_up_a_live_command_only_until_others_are_quiet(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins_module, "QUIET_S", 0.0)
    asked = asking(live=True)
    mute = [f"mute{number}" for number in range(7)]
    assert asked.ask(["n0"], mute) == ["n0"]
    assert "no answer yet from mute0, mute1, mute2, mute3, mute4 and 2 others." in asked.said[-1]


def test_nothing_is_printed_if_every_host_answers(asking: Asking) -> None:
    asked = asking(screen=True)
    for host in ("a", "b"):
        asked.logins.settled(host)
    assert asked.ask([], ["a", "b"]) == []
    assert asked.said == []


def test_a_screen_says_once_that_it_waits(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins_module, "TELL_S", 0.0)
    asked = asking(screen=True)
    asked.then = {"a": lambda: asked.logins.settled("b")}
    threading.Timer(0.3, lambda: asked.others.refuse("a")).start()
    assert asked.ask([], ["a", "b"]) == ["a"]
    assert asked.said[0] == "gputop: connecting to 2 hosts; Ctrl-C opens the screen at once."
    assert sum("connecting" in line for line in asked.said) == 1


def test_ctrl_c_during_the_wait_opens_the_screen_or_ends_the_command(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for is_screen in (True, False):
        asked = asking(screen=is_screen)
        monkeypatch.setattr(asked.logins, "_next_refused", interrupt)
        if is_screen:
            asked.ask(["a"])
        else:
            with pytest.raises(KeyboardInterrupt):
                asked.ask(["a"])
        asked.others.join()
        assert asked.others.told == {"a": DENIED}, "its thread goes on"


def test_a_host_that_is_closed_waits_no_longer(asking: Asking) -> None:
    asked = asking()
    asked.others.refuse("a")
    asked.others.closed.set()
    asked.logins.settled("a")
    asked.others.join()
    assert asked.others.told == {"a": DENIED}


@pytest.mark.parametrize(
    ("outcomes", "count"),
    [
        (["skipped", "skipped"], 2),
        (["skipped", "failed", "skipped", "logged in", "skipped"], 6),
        (["failed unasked"] * 3, 3),
        (["failed unasked", "failed unasked", "failed", "failed unasked", "failed unasked"], 6),
        (["failed unasked", "failed unasked", "logged in", "failed unasked"], 6),
    ],
)
def test_the_questions_end_where_the_user_or_ssh_gives_up(outcomes: list[Outcome], count: int, asking: Asking) -> None:
    assert len(asking(*outcomes).ask(names(6))) == count


def test_the_number_of_untried_hosts_is_shown(asking: Asking) -> None:
    asked = asking(*["failed unasked"] * 3)
    asked.ask(names(64))
    assert "so none is tried for the 61 other hosts." in asked.said[-1]


def test_a_jump_host_is_asked_for_once_before_the_hosts_behind_it(asking: Asking) -> None:
    behind = dict.fromkeys(names(3), "me@gate:22")
    asked = asking("logged in", "logged in", jumps=behind)
    asked.others.refuse_again = {"n1"}
    assert asked.ask(names(3)) == ["me@gate:22", "n1"], "n1 needs an answer of its own"
    assert asked.others.told == dict.fromkeys(names(3)), "all try again, through it"
    assert asked.said[0] == "gputop: logging in to me@gate:22, the jump host of n0; Ctrl-C skips it."


@pytest.mark.parametrize("hosts", [["gate", "n0", "n1"], ["n0", "n1", "gate"]])
def test_a_jump_host_that_is_also_watched_is_asked_for_once(hosts: list[str], asking: Asking) -> None:
    asked = asking("logged in", jumps=dict.fromkeys(names(2), "gate"))
    assert asked.ask(hosts) == ["gate"]
    assert asked.others.told == dict.fromkeys(hosts)


def test_nothing_is_asked_behind_a_jump_host_that_was_not_logged_in_to(asking: Asking) -> None:
    asked = asking("skipped", jumps=dict.fromkeys(names(3), "gate"))
    assert asked.ask(names(3)) == ["gate"]
    assert asked.others.told == dict.fromkeys(names(3), DENIED)


def test_where_there_is_no_terminal_a_sentence_says_what_to_do(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins_module, "has_terminal", lambda: False)
    asked = asking()
    assert asked.ask(["a"]) == []
    told = asked.others.told["a"]
    assert told is not None
    assert (told.state, told.hint) == (
        "permission_denied",
        "If it needs an answer, such as a passphrase or a code, run gputop in a terminal, where ssh can ask: ssh a",
    )
    key = Failure("unknown_host_key", "ssh does not know its key.", "Connect once and compare the key: ssh a")
    assert asked.logins.refused("a", key, asked.others.closed) == key
    elsewhere = Logins(Transport(("kubectl", "exec", "-i", "{host}", "--")))
    assert elsewhere.refused("a", DENIED, asked.others.closed) == DENIED
