"""How far a run came before its first collective operation: whether its node reached the others, and NCCL was ready. Pure.

Sources: NCCL 2.14 to 2.29, src/bootstrap.cc ("Bootstrap : Using", "Bootstrap: Using" since 2.27) and src/init.cc ("Init START"
since 2.18, "Init COMPLETE" before, too); torch 1.11 to 2.13, torch/csrc/distributed/c10d/socket.cpp; torchrun's agent.
"""

from __future__ import annotations

import re

TRIGGERS = (
    *("NCCL INFO Bootstrap", "- Init START", "- Init COMPLETE"),
    *(
        "client socket has failed to connect",
        "Waiting in store based barrier",
        "SIGINT death signal",
        "^C",
        "othing more since",
        "output since",
        "output after",
    ),
)
SAME_RUN_LINES = 40
"""At most this many lines follow a run's last words before it hangs: the launcher's, and what a user adds (our choice)."""
TRIES_MIN = 6
"""A rank that starts before the others fails to connect, or says that it waits for them, several times within a few seconds
(our choice)."""
_MEETS = re.compile(r"NCCL INFO Bootstrap ?: Using (?P<interface>[\w.-]{1,40}):(?P<address>[\d.]{7,15})")
_BRIDGE = re.compile(r"(?:docker|virbr|lxcbr|lxdbr|podman|cni)\d{1,3}$|br-[0-9a-f]{12}$")
"""Interfaces to containers and virtual machines, with an address that other hosts give to a bridge of their own."""
_INIT = re.compile(
    r"comm 0x[0-9a-f]{1,16} rank (?P<rank>\d{1,6}) nranks (?P<ranks>\d{1,6}) .{0,200}- Init (?P<what>START|COMPLETE)"
)
_FAILED = re.compile(
    r"client socket has failed to connect to \[?(?:::ffff:)?(?P<address>[\w.:-]{1,200}?)\]?:(?P<port>\d{1,5}) "
    r"\(errno: (?:110|111|113) - (?P<why>[\w ]{1,60})\)"
)
"""Not the attempts over IPv6 that a host without it cannot make (97, 99)."""
_WAITS = re.compile(r"Waiting in store based barrier .{0,200}world_size=(?P<world>\d{1,6}), worker_count=(?P<joined>\d{1,6})")
_INTERRUPTED = re.compile(
    r"^\W{0,4}\^C|SIGINT death signal|^\W{0,6}(?i:nothing more|no (?:more |further )?output) (?:since|after)\b"
)


class Start:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before any of them."""
        self.bridge = ""
        """The bridge through which NCCL meets the other ranks; empty if it uses no bridge."""
        self.bridge_line = ("", 0)
        """The line that names it, and its number."""
        self.ranks = 0
        """How many ranks the first communicator is to have."""
        self.begun: set[int] = set()
        self.ready: set[int] = set()
        """The ranks that began with it, and those for which a communicator was completed."""
        self.was_stopped = False
        """Whether a person stopped the run after that."""
        self.tries = 0
        self.tried: tuple[str, str, str] = ("", "", "")
        self.tried_line = ("", 0)
        """How often the node failed to connect to the same place; its address, its port, and why; the last such line."""
        self.waits = 0
        self.joined = (0, 0)
        self.joined_line = ("", 0)
        """How often ranks said that they wait for others to join; how many had joined, of how many; the last such line."""
        self.last_at = 0
        """The number of the last of these lines, among all scanned lines."""

    def line(self, text: str, number: int, at: int) -> None:
        """Take a line, its number in the log (0: unknown), and its place among the scanned lines."""
        if "NCCL INFO Bootstrap" in text:
            found = _MEETS.search(text)
            if found is not None and not self.bridge and _BRIDGE.match(found["interface"]) is not None:
                self.bridge, self.bridge_line = found["interface"], (text.strip(), number)
        elif "- Init " in text and (begun := _INIT.search(text)) is not None:
            self.ranks = self.ranks or int(begun["ranks"])
            (self.ready if begun["what"] == "COMPLETE" else self.begun).add(int(begun["rank"]))
            self.last_at, self.was_stopped = at, False
        elif _INTERRUPTED.search(text) is not None:
            self.was_stopped = True
        elif "store based barrier" in text and (waits := _WAITS.search(text)) is not None:
            self.joined = int(waits["joined"]), int(waits["world"])
            self.waits += 1
            self.joined_line, self.last_at = (text.strip(), number), at
        elif "failed to connect" in text and (failed := _FAILED.search(text)) is not None:
            tried = failed["address"], failed["port"], failed["why"]
            self.tries = self.tries + 1 if tried[:2] == self.tried[:2] else 1
            self.tried, self.tried_line, self.last_at = tried, (text.strip(), number), at
