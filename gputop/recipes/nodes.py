"""One command on several hosts: what they agree on, and how torchrun learns it. Pure except for ``own_address``.

torchrun also reads its options from PET_ variables, so the command stays as written. gputop names the first host as the server
of the rendezvous (c10d); torchrun would otherwise guess it from the machine's name. A command that says where its nodes meet is
unchanged.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gputop.errors import UsageError
from gputop.recipes.catalogue import Launch

READ_TIMEOUT_S = 300
"""How long a node waits for the first one, which takes minutes to import torch from a slow disk."""
_OWN_RENDEZVOUS = re.compile(r"--(rdzv|node|master)[-_]")
_ENDPOINT = re.compile(r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """What one host is asked to start, as node ``node`` of ``nodes``: a recipe with values, or a command."""

    id: str
    """The id of the launch, which is the run's id on all hosts."""
    node: int
    nodes: int
    recipe: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of a command. They may be secrets, so they never become arguments, which every user of a machine can see."""
    devices: str | None = None
    """The devices as the user wrote them: "0,1"; None: as many as suit the recipe, or all of them for a command."""
    cwd: str | None = None
    name: str | None = None
    project: str | None = None
    virtual: int | None = None

    @property
    def job_id(self) -> str:
        """The id of the job on this host. Hosts may share a home directory, so each job has its own id."""
        return f"{self.id}-n{self.node}"

    @property
    def watching(self) -> str:
        """The options that a screen of the launch needs, with a blank after them: without them, it has no virtual GPUs."""
        return f"--virtual {self.virtual} " if self.virtual is not None else ""


@dataclass(frozen=True, slots=True)
class NodeReady:
    """A host's answer once it is ready to start: its own address, and a free port there."""

    address: str
    port: int


def over_nodes(launch: Launch, order: NodeOrder, address: str, endpoint: str) -> Launch:
    """Return the launch as one node of several that meet at ``endpoint``; other nodes reach this machine at ``address``."""
    if has_own_rendezvous(launch.argv):
        return launch
    found = {
        "PET_NNODES": str(order.nodes),
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": endpoint,
        "PET_RDZV_ID": order.id,
        "PET_RDZV_CONF": f"is_host={order.node == 0},read_timeout={READ_TIMEOUT_S}",
    }
    own = {"PET_LOCAL_ADDR": address} if address else {}
    return replace(launch, env={**found, **own, **launch.env})


def has_own_rendezvous(command: Sequence[str]) -> bool:
    """Return whether a command itself says where its nodes meet."""
    return any(_OWN_RENDEZVOUS.match(word) for word in command)


def as_node(launch: Launch) -> Launch:
    """Return a launch that can be a node of several.

    Raises:
        UsageError: it trains on one machine.
    """
    alone = "--standalone" in launch.argv
    if launch.recipe_id is None:
        if alone:
            raise UsageError("torchrun --standalone trains on one machine.", "Leave out --standalone.")
        return launch
    if not alone:
        raise UsageError(f"{launch.recipe_id} trains on one machine.", "Choose a recipe that torchrun starts, such as ddp.")
    return replace(launch, argv=tuple(word for word in launch.argv if word != "--standalone"))


def parse_endpoint(text: str) -> tuple[str, int | None]:
    """Return host and port of "HOST:PORT" or "HOST".

    Raises:
        UsageError: it is neither.
    """
    found = _ENDPOINT.fullmatch(text)
    port = int(found["port"]) if found and found["port"] else None
    if not found or (port is not None and not 0 < port < 1 << 16):
        raise UsageError(f"{text!r} is not an address.", "Write it like --rendezvous gpu1:29400.")
    return found["host"], port


def endpoint_of(first: NodeReady, wanted: str | None) -> str:
    """Return where the nodes meet: the user's choice, else the first one's own address, which is used only for that.

    Raises:
        UsageError: what the user or the first host gives is not an address.
    """
    import ipaddress  # the launch screen imports this module

    host, port = parse_endpoint(wanted) if wanted is not None else (None, None)
    if host is None:
        try:
            if "%" in first.address:  # the zone of an IPv6 address can be any text
                raise ValueError
            found = ipaddress.ip_address(first.address)
        except ValueError:
            raise UsageError("The first host does not know its address.", "Add --rendezvous HOST:PORT.") from None
        host = f"[{found}]" if found.version == 6 else str(found)
    port = port or first.port
    if not 0 < port < 1 << 16:
        raise UsageError("The first host has no free port.", "Add --rendezvous HOST:PORT.")
    return f"{host}:{port}"


def own_address(environment: Mapping[str, str] = os.environ) -> str:
    """Return the address at which others reach this machine: that of the ssh connection, else of the default route, else ""."""
    import ipaddress

    words = environment.get("SSH_CONNECTION", "").split()
    with contextlib.suppress(ValueError, IndexError):
        return str(ipaddress.ip_address(words[2]))
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))  # sends nothing
            return str(probe.getsockname()[0])
    return ""


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
