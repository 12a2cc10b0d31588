"""Logins that ask the user something: a passphrase, a second factor, whether to trust an unknown host key.

The connections of a command ask nothing (BatchMode), which shows which hosts need an answer. The user's ssh then asks on the
terminal, one host after another, and keeps each connection as a master that the others share (``masters``). A jump host asks
once, before the hosts behind it. All this ends before a screen takes the terminal, or a command prints its results.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gputop.hosts.masters import Masters, Outcome, has_terminal, say
from gputop.hosts.state import Failure
from gputop.hosts.transport import Transport

WAIT_S = 15.0
QUIET_S = 2.0
"""How long a live command waits for a login that needs an answer; and, once a host has connected or failed, how long it waits
for the next one: a host that does not answer must not delay the others. Both times start again after each login."""
TELL_S = 0.5
"""After this long, gputop says what the screen waits for."""
UNASKED_MOST = 3
"""After this many consecutive logins that failed without a question, the user has no answers for the others."""
NAMED_MOST = 5
"""Maximum number of hosts named in a line."""
NO_TERMINAL = "If it needs an answer, such as a passphrase or a code, run gputop in a terminal, where ssh can ask: {login}"


class Logins:
    """The logins of one command; ``close`` ends the connections that were made for it.

    ``transport`` reaches the hosts and passes their questions here. Each host is asked for once. A command is
    ``live`` if it shows results as they arrive: then it does not wait for the last host.
    """

    def __init__(self, transport: Transport, *, live: bool = False, screen: bool = False) -> None:
        self.transport = replace(transport, asking=self)
        self._masters = Masters(self.transport)
        self._is_live, self._is_screen = live or screen, screen
        self._asks = transport.can_ask and has_terminal()
        self._lacks_terminal = transport.can_ask and not self._asks
        self._jumps: dict[str, Outcome] = {}
        """How the login ended at each possible jump host."""
        self._began = math.nan
        """When the first wait began; monotonic."""
        self._is_told = False
        self._changed = threading.Condition()
        """Held for what follows: the threads of the hosts change it too."""
        self._connecting: dict[str, None] = {}
        """Hosts that have neither connected nor failed for good."""
        self._refused: dict[str, None] = {}
        """Hosts whose threads wait for an answer."""
        self._settled: set[str] = set()
        self._asked: set[str] = set()
        self._admitted: set[str] = set()
        """Hosts whose threads should try again."""

    def __enter__(self) -> Logins:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End gputop's own masters, and ask nothing more."""
        self._asks = False
        self._masters.close()

    def refused(self, host: str, failure: Failure, closed: threading.Event) -> Failure | None:
        """Wait until the user was asked for a host, or it is closed; return None if it can be tried again, else the failure."""
        with self._changed:
            if self._asks and host not in self._asked:
                self._refused[host] = None
                self._changed.notify_all()
                self._changed.wait_for(lambda: host not in self._refused or closed.is_set())
                if host in self._admitted:
                    self._admitted.remove(host)
                    return None
        if self._lacks_terminal and failure.state == "permission_denied":
            return failure._replace(hint=NO_TERMINAL.format(login=self.transport.shown_login(host)))
        return failure

    def settled(self, host: str) -> None:
        """Note that a host is connected, failed for good, or is no longer wanted."""
        with self._changed:
            self._settled.add(host)
            self._connecting.pop(host, None)
            self._changed.notify_all()

    def ask(self, hosts: Sequence[str]) -> None:
        """Ask for the logins of hosts that are connecting, in the main thread.

        Ctrl-C skips a host, and a second one all others. While nothing is asked, it opens the screen, or ends the command.

        Raises:
            KeyboardInterrupt: Ctrl-C while nothing was asked, and no screen follows.
        """
        if not self._asks:
            return
        try:
            with self._changed:
                self._connecting = {host: None for host in hosts if host not in self._settled | self._asked}
                count = len(self._connecting)
            self._ask_each(count)
        except KeyboardInterrupt:
            if not self._is_screen:
                raise
        finally:
            with self._changed:
                self._asked.update(hosts)
                self._refused.clear()
                self._connecting.clear()
                self._changed.notify_all()

    def _ask_each(self, count: int) -> None:
        unasked, skipped = 0, False
        while (host := self._next_refused(count)) is not None:
            outcome = self._admit(host, skipped)
            if outcome is None:
                continue
            if skipped and outcome == "skipped":
                return
            skipped = outcome == "skipped"
            unasked = unasked + 1 if outcome == "failed unasked" else 0
            others = len(self._waiting())
            if unasked == UNASKED_MOST and others:
                left = f"{others} other hosts" if others > 1 else "other host"
                say(f"gputop: {unasked} logins in a row failed without a question, so none is tried for the {left}.")
                return
        late = self._waiting()
        if late:
            say(f"gputop: no answer yet from {_names(late)}. If a login there asks something, start gputop again.")

    def _admit(self, host: str, skipped: bool) -> Outcome | None:
        """Have the user log in to a host, or first to its jump host; return how that ended, None if nothing had to be asked."""
        if self._jumps.get(host) == "logged in":
            self._answer(host, admitted=True, asked=True)
            return None
        jump, outcome = self._masters.jump_of(host), None
        if jump is not None:
            if jump not in self._jumps:
                name = f"{jump}, the jump host of {host}"
                outcome = self._jumps[jump] = self._log_in(name, partial(self._masters.log_in_jump, jump), skipped)
            is_in = self._jumps[jump] == "logged in"
            if not is_in or self._masters.go_through(jump, host):
                self._answer(host, admitted=is_in, asked=not is_in)
                return outcome
        outcome = self._jumps[host] = self._log_in(host, partial(self._masters.log_in, host), skipped)
        self._answer(host, admitted=outcome == "logged in", asked=True)
        return outcome

    def _log_in(self, name: str, log_in: Callable[[], Outcome], skipped: bool) -> Outcome:
        others = " and all others" if skipped and len(self._waiting()) > 1 else ""
        say(f"gputop: logging in to {name}; Ctrl-C skips it{others}.")
        outcome = log_in()
        if outcome != "logged in":
            say(f"gputop: not logged in to {name}.")
        return outcome

    def _answer(self, host: str, *, admitted: bool, asked: bool) -> None:
        """Let the thread of a host continue. If it was not ``asked`` for yet, it may be refused once more."""
        with self._changed:
            self._refused.pop(host, None)
            if admitted:
                self._admitted.add(host)
            if asked:
                self._asked.add(host)
                self._connecting.pop(host, None)
            self._changed.notify_all()

    def _waiting(self) -> list[str]:
        """Return the hosts that are refused, or have neither connected nor failed so far."""
        with self._changed:
            return list({**self._refused, **self._connecting})

    def _next_refused(self, count: int) -> str | None:
        """Wait for a host whose login needs an answer; None if none comes in time. ``count`` hosts were connecting at first."""
        began = changed = time.monotonic()
        self._began = began if math.isnan(self._began) else self._began
        with self._changed:
            left = len(self._connecting)
            while not self._refused:
                now, before, left = time.monotonic(), left, len(self._connecting)
                changed = now if left < before else changed
                until = min(began + WAIT_S, changed + QUIET_S if left < count else math.inf) if self._is_live else math.inf
                if not left or now >= until:
                    return None
                until = min(until, self._tell(now, left))
                self._changed.wait(until - now if until < math.inf else None)
            return next(iter(self._refused))

    def _tell(self, now: float, count: int) -> float:
        """Report once what the screen waits for; return the time at which that is due."""
        due = self._began + TELL_S
        if self._is_told or not self._is_screen:
            return math.inf
        if now >= due:
            self._is_told = True
            say(f"gputop: connecting to {count} host{'s' if count > 1 else ''}; Ctrl-C opens the screen at once.")
            return math.inf
        return due


def _names(hosts: Sequence[str]) -> str:
    """Return "a, b and 3 others"."""
    if len(hosts) <= NAMED_MOST:
        return " and ".join(filter(None, (", ".join(hosts[:-1]), hosts[-1])))
    return f"{', '.join(hosts[:NAMED_MOST])} and {len(hosts) - NAMED_MOST} others"
