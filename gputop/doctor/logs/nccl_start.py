"""How far NCCL came with its first communicator, by its own lines (NCCL_DEBUG=INFO), and through which interface. Pure.

Sources: NCCL 2.14 to 2.29, src/bootstrap.cc ("Bootstrap : Using", "Bootstrap: Using" since 2.27) and src/init.cc ("Init START"
since 2.18, "Init COMPLETE" before, too).
"""

from __future__ import annotations

import re

TRIGGERS = ("NCCL INFO Bootstrap", "- Init START", "- Init COMPLETE")
_MEETS = re.compile(r"NCCL INFO Bootstrap ?: Using (?P<interface>[\w.-]{1,40}):(?P<address>[\d.]{7,15})")
_BRIDGE = re.compile(r"(?:docker|virbr|lxcbr|lxdbr|podman|cni)\d{1,3}$|br-[0-9a-f]{12}$")
"""Interfaces to containers and virtual machines, with an address that other hosts give to a bridge of their own."""
_INIT = re.compile(
    r"comm 0x[0-9a-f]{1,16} rank (?P<rank>\d{1,6}) nranks (?P<ranks>\d{1,6}) .{0,200}- Init (?P<what>START|COMPLETE)"
)


class NcclStart:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before any communicator."""
        self.bridge = ""
        """The bridge through which NCCL meets the other ranks; empty if it uses no bridge."""
        self.ranks = 0
        """How many ranks the first communicator is to have."""
        self.begun: set[int] = set()
        """The ranks that began with it."""
        self.is_ready = False
        """Whether a communicator was completed."""
        self.line_number = 0
        self.text = ""
        """The line that names the bridge, and its number."""

    def line(self, text: str, number: int) -> None:
        """Take a line and its number in the log."""
        if "NCCL INFO Bootstrap" in text:
            found = _MEETS.search(text)
            if found is not None and not self.bridge and _BRIDGE.match(found["interface"]) is not None:
                self.bridge, self.text, self.line_number = found["interface"], text.strip(), number
        elif "- Init " in text and (begun := _INIT.search(text)) is not None:
            self.ranks = self.ranks or int(begun["ranks"])
            self.begun.add(int(begun["rank"]))
            self.is_ready = self.is_ready or begun["what"] == "COMPLETE"
