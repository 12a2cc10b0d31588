"""``gputop launch -H``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gputop.errors import EXIT_OK
from gputop.hosts.transport import Transport
from gputop.over_hosts.launch import launch_over
from gputop.recipes.nodes import NodeOrder
from gputop.terminal_text import printable


def launch(hosts: Sequence[str], transport: Transport, order: NodeOrder, rendezvous: str | None, reach: str) -> int:
    """Start ``order`` on each host, and print what to do next. ``reach`` are the options that name and reach the hosts.

    Raises:
        UsageError: ``rendezvous`` is not an address.
        GputopError: a host cannot start it; then it runs on none of them.
    """
    launch_over(hosts, transport, order, rendezvous, lambda line: print(printable(line), file=sys.stderr, flush=True))
    print(printable(f"{order.id} runs on {', '.join(hosts)}, and outlives this terminal."))
    for command in (order.watching, f"logs -f {order.id} ", f"stop {order.id} "):
        print(printable(f"  gputop {command}{reach}"))
    return EXIT_OK
