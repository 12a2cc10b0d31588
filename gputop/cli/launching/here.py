"""``gputop launch`` on this machine: as a separate job, or as one node of a launch over several hosts.

A node reads lines of JSON from standard input: first its order, to which it answers ``ready``; then ``go``, which starts the
job. If one of the hosts cannot start, or a link breaks before that, nothing starts on any host. A third line, ``keep``, says
that all have started: from then on, the job continues without the link. If this process ends before that, however it ends,
the job's supervisor stops the job.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gputop.cli.launching.devices import devices_of
from gputop.errors import EXIT_OK, EXIT_PROBLEM, GputopError, UsageError
from gputop.jobs import store
from gputop.places import working_dir
from gputop.recipes import catalogue, nodes, own_commands
from gputop.recipes.catalogue import Launch
from gputop.recipes.nodes import NodeOrder, NodeReady
from gputop.wire import FormatError, decode, encode, parse_json

ORDER_MAX_BYTES = 1 << 20
"""How much of the line with an order is read."""


def prepared(order: NodeOrder) -> Launch:
    """Return the command of an order.

    Raises:
        UsageError: it cannot run on this machine.
    """
    cwd = order.cwd or working_dir()
    if not Path(cwd).expanduser().is_dir():
        raise UsageError(f"There is no folder {cwd}.", "Name another one with --cwd.")
    if order.recipe is not None:
        recipe = catalogue.find(order.recipe)
        named = {"name": order.name} if order.name else {}
        found = catalogue.prepare(
            recipe, devices_of(order.devices, order.virtual, recipe), {**named, **order.values}, order.nodes
        )
        project = _project(order)
        return found if not project else _with(found, project)
    devices = devices_of(order.devices, order.virtual) if order.devices else ()
    own = own_commands.OwnCommand(order.name or "", shlex.join(order.command), cwd, {**order.environment, **_project(order)})
    return own_commands.prepare(own, devices)


def _project(order: NodeOrder) -> dict[str, str]:
    return {"GPUTOP_PROJECT": order.project, "GPUTOP_PROJECT_WINS": "1"} if order.project else {}


def _with(found: Launch, environment: Mapping[str, str]) -> Launch:
    return replace(found, env={**found.env, **environment})


def be_node() -> int:
    """Act as one node: read the order, report ready, start when all are ready, and keep the job once all have started.

    Raises:
        GputopError: it cannot start here.
    """
    order = _read(NodeOrder, "order")
    if order is None:
        raise UsageError("No order came on standard input.", "gputop launch -H starts this on each host.")
    found = nodes.as_node(prepared(order))
    address = nodes.own_address()
    _write_line("ready", encode(NodeReady(address, nodes.free_port())))
    endpoint = _read(str, "go")
    if endpoint is None:
        return EXIT_PROBLEM
    launch = nodes.over_nodes(found, order, address, endpoint)
    job = store.start(launch, job_id=order.job_id, launch_id=order.id, nodes=order.nodes, until_kept=True)
    _write_line("started", job.id)
    if _read(str, "keep") is None:
        return EXIT_PROBLEM
    store.keep(job)
    _write_line("kept", job.id)
    return EXIT_OK


def _read(kind: type[Any], key: str) -> Any:
    """Return the value under ``key`` in the next line of standard input; None at its end.

    Raises:
        GputopError: the line has no such key.
    """
    line = sys.stdin.buffer.readline(ORDER_MAX_BYTES)
    if not line:
        return None
    try:
        return decode(kind, parse_json(line)[key])
    except (FormatError, LookupError, TypeError) as error:
        raise GputopError(
            "Standard input is not a gputop launch.", "Install the same gputop version on both machines."
        ) from error


def _write_line(key: str, value: object) -> None:
    print(json.dumps({key: value}), flush=True)
