"""The state of a host, and what the end of a connection says about it. Pure.

Standard error counts as ssh's own until the other side has said hello, and as the other side's from then on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gputop.errors import PLEASE_REPORT, __version__, describe_unexpected
from gputop.terminal_text import printable, strip_controls

HostState = Literal[
    "connecting",
    "live",
    "slow",
    "flooding",
    "mute",
    "unknown_host_key",
    "changed_host_key",
    "permission_denied",
    "refused",
    "not_resolved",
    "unreachable",
    "timed_out",
    "busy",
    "no_gputop",
    "no_python",
    "older_gputop",
    "newer_gputop",
    "unreadable",
    "failed",
    "ended",
    "target_down",
    "old_samples",
]
"""State of a host.

"slow": its line is late, but the connection is up; "flooding": it sends more than gputop reads from one host; "mute": the
connection was closed because it was silent; "busy": the connection was closed before the login; "unreadable": the data is not a
stream of gputop; "failed": gputop or the command ended with an error; "ended": the link was lost after readings had arrived.
For a host that a Prometheus server knows: "target_down": the server cannot read the exporter there; "old_samples": what it has
read is too old.
"""
WORDS: Mapping[HostState, str] = {
    "connecting": "connecting",
    "live": "live",
    "slow": "slow",
    "flooding": "sends too much",
    "mute": "mute",
    "unknown_host_key": "unknown host key",
    "changed_host_key": "changed host key",
    "permission_denied": "permission denied",
    "refused": "connection refused",
    "not_resolved": "name not resolved",
    "unreachable": "unreachable",
    "timed_out": "timed out",
    "busy": "connection closed",
    "no_gputop": "no gputop",
    "no_python": "no python for gputop",
    "older_gputop": "older gputop",
    "newer_gputop": "newer gputop",
    "unreadable": "unreadable",
    "failed": "failed",
    "ended": "link lost",
    "target_down": "exporter down",
    "old_samples": "old samples",
}
"""A state in words."""
SHOWING_STATES: frozenset[HostState] = frozenset({"live", "slow", "flooding"})
"""The connection is up, and readings arrive."""
ASKING_STATES: frozenset[HostState] = frozenset({"permission_denied", "unknown_host_key"})
"""The states of a login without questions after which a login with questions may succeed."""
PERSON_STATES: frozenset[HostState] = frozenset(
    {"unknown_host_key", "changed_host_key", "permission_denied", "no_gputop", "no_python", "older_gputop", "newer_gputop"}
)
"""Only the user can change these, so gputop retries rarely."""
WORDS_MAX = 200
"""How many characters of another program's output a sentence quotes."""


class Failure(NamedTuple):
    """Why a connection ended: a sentence on what is wrong, without the host's name, and one on what to do."""

    state: HostState
    message: str
    hint: str = ""


def unread(error: Exception) -> Failure:
    """Return the failure for an unexpected error in reading a host, or a server that knows hosts."""
    return Failure("failed", f"gputop could not read it: {describe_unexpected(error)}.", f"It needs {PLEASE_REPORT}.")


def misunderstood(host: str, version: str | None) -> str:
    """Say that the gputop on a host, with this version, and the one here do not understand each other."""
    there = "an older version" if version is None else f"version {printable(version)}"
    return (
        f"gputop on {host} and here do not understand each other: there it is {there}, here version {__version__}. "
        "Install the same version on both machines."
    )


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The state of one host. ``host`` is the name that the user gave; times are wall clock, in seconds."""

    host: str
    state: HostState = "connecting"
    since: float | None = None
    """When this state began."""
    message: str | None = None
    hint: str | None = None
    last_heard_at: float | None = None
    """When the last snapshot was made, by this machine's clock; if the clocks are not compared, when it arrived."""
    clock_offset_s: float | None = None
    """The host's clock minus this machine's: by question and answer, else by a snapshot, too small by the time it traveled."""
    clock_error_s: float | None = None
    """The maximum error of ``clock_offset_s``; None if the host has not answered."""

    @property
    def sentence(self) -> str:
        """The host, its state, and what is wrong, in words."""
        message = self.message or ("It has not answered yet." if self.state == "connecting" else "")
        return f"{self.host}: {WORDS[self.state]}. {message} {self.hint or ''}".strip()


_SSH_WORDS: Sequence[tuple[str, HostState, str, str]] = (
    (
        "HOST IDENTIFICATION HAS CHANGED",
        "changed_host_key",
        "Its key is not the one that ssh knows: the host was reinstalled, or another machine answers in its place.",
        "Ask its administrator; if it was reinstalled, remove the old key with ssh-keygen -R, then connect once: {login}",
    ),
    (
        "Host key verification failed",
        "unknown_host_key",
        "ssh does not know its key.",
        "Connect once and compare the key: {login}",
    ),
    (
        "session request failed",
        "permission_denied",
        "The shared connection accepts no more sessions, and a separate connection needs an answer to log in.",
        "Raise MaxSessions of the sshd there.",
    ),
    ("Permission denied", "permission_denied", "It refuses the login.", "See what is missing: {login}"),
    ("Too many authentication failures", "permission_denied", "It refuses the login.", "See what is missing: {login}"),
    (
        "Connection refused",
        "refused",
        "It refuses the connection: no sshd listens on that port.",
        "Check the host and the port.",
    ),
    ("Could not resolve hostname", "not_resolved", "Its name has no address.", "Check the name, and ~/.ssh/config."),
    ("timed out", "timed_out", "It did not answer in time.", "Check that it runs, and that no firewall blocks the connection."),
    ("No route to host", "unreachable", "There is no route to it.", "Check the network."),
    ("Network is unreachable", "unreachable", "There is no route to it.", "Check the network."),
    (
        "kex_exchange_identification",
        "busy",
        "It closed the connection before the login.",
        "A jump host may allow too few logins at once (MaxStartups of its sshd).",
    ),
    (
        "Not allowed at this time",
        "busy",
        "It temporarily refuses this address: its sshd penalizes failed logins.",
        "Wait some minutes.",
    ),
)
"""What ssh writes -> state, message, hint. Measured with OpenSSH 9.2; the first one that fits counts."""


_STALE_SOCKET = "Control socket connect("
"""The beginning of ssh's complaint about a lost shared connection; ssh then opens its own."""


def failure_of_login(code: int | None, words: Sequence[str], login: str) -> Failure:
    """Return why a command that never reached a shell there ended.

    ``code`` is its exit code, None if it still runs, ``words`` what it wrote last, and ``login`` the command that the user
    types.
    """
    text = "\n".join(word for word in words if not word.startswith(_STALE_SOCKET))
    for known, state, message, hint in _SSH_WORDS:
        if known.lower() in text.lower():
            return Failure(state, message, hint.format(login=login))
    return Failure("failed", f"The connection ended{_ending(code, words)}.", f"Try it: {login}")


_PYTHON_THERE = re.compile(r"gputop: not found; Python (none|\d{1,2}\.\d{1,3})[\d.a-z+]* is there")


def failure_of_gputop(code: int | None, words: Sequence[str], login: str) -> Failure:
    """Return why gputop ended there before its first reading."""
    python = _PYTHON_THERE.search("\n".join(words))
    if code == 127 and python is not None:
        found = "there is no python3" if python[1] == "none" else f"its Python is {python[1]}"
        what = f"There is no gputop there, and the one here cannot travel: it needs Python 3.8 or newer there, and {found}."
        return Failure(
            "no_python", what, "Install gputop or such a Python there, or name its command: --remote /path/to/gputop"
        )
    if code in (126, 127):
        return Failure(
            "no_gputop", "There is no gputop there.", "Install it there, or name its command: --remote /path/to/gputop"
        )
    if code == 2 and any(part in "\n".join(words).lower() for part in ("unrecognized arguments", "invalid choice")):
        return Failure("older_gputop", "The gputop there does not know this request.", "Update it there.")
    return Failure("failed", f"gputop ended there{_ending(code, words)}.", f"Try it there: {login}")


def _ending(code: int | None, words: Sequence[str]) -> str:
    said = next((line for line in reversed(words) if line.strip()), "")
    said = printable(strip_controls(said)).strip().removeprefix("gputop: ").rstrip(".")[:WORDS_MAX]
    return f": {said}" if said else "" if code is None else f" with exit code {code}"
