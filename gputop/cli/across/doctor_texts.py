"""What ``gputop doctor -H`` says about runs over hosts, and about launches whose ranks have not met. Pure text."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Finding
from gputop.doctor.report import finding_text
from gputop.doctor.watch import Outcome
from gputop.joined.launches import JoinedLaunch
from gputop.joined.rendezvous import Rendezvous, rendezvous_text
from gputop.joined.runs import JoinedRun
from gputop.joined.troubles import launch_troubles
from gputop.joined.untracked import JoinedProcessRun


def untracked_text(run: JoinedProcessRun, outcome: Outcome | None) -> str:
    """Return where the ranks of an untracked run are, and what is wrong with the network between them."""
    places = ", ".join(f"{part.host} {words.ranks(part.ranks)}" for part in run.parts)
    lacking = (
        f" Of its {run.world_size} ranks, {units.ranges(run.missing)} are not on any host that was read." if run.missing else ""
    )
    head = f"Not tracked: {run.name} over {len(run.parts)} hosts: {places}.{lacking}"
    found = [item for item in outcome.findings if item.run == run.exchange_id] if outcome is not None else []
    return "\n\n".join((head, *(finding_text(item, number, len(found)) for number, item in enumerate(found, 1))))


def launch_text(launch: JoinedLaunch, unread: Sequence[str], reach: str) -> str:
    """Return what is wrong with a launch whose ranks have not met, and the commands that tell why and end it."""
    head = f"Launch {launch.id} ({launch.name}) has made no step yet."
    texts = (f"{text[:1].upper()}{text[1:]}." for text in launch_troubles(launch, unread))
    name = fixes.shell_join((launch.id,))
    return f"{' '.join((head, *texts))}\n  gputop logs {reach} {name}  # why\n  gputop stop {reach} {name}"


def waiting_text(one: Rendezvous, reported: Sequence[Finding], unread: Sequence[str]) -> str:
    """Return what is wrong with launchers that wait for other nodes, and where to look.

    ``reported`` are the findings of the hosts' own doctors on such launchers.
    """
    text = rendezvous_text(one, unread)
    look = "# its output on the nodes that are missing says why, unless they were never started"
    if not one.missing:
        look = "# do all nodes have the same --rdzv-endpoint, --rdzv-id and --nnodes, and can they reach that address?"
    fix = next((item.fix for item in reported if set(item.pids) & set(one.pids)), look)
    return "\n  ".join((f"Not tracked: {one.name} has no rank yet: {text}.", *fix.splitlines()))


def run_text(run: JoinedRun, texts: Sequence[str], outcome: Outcome | None, read: Sequence[str]) -> str:
    """Return where a run over hosts is, and what is wrong between them; ``read`` are all hosts that were read."""
    blocks = [f"Run {run.run.name} has failed."]
    if run.parts:
        places = ", ".join(f"{part.host} {words.ranks(part.ranks)}" for part in run.parts)
        blocks = [f"Run {run.run.name} over {len(run.parts)} host{'s' * (len(run.parts) != 1)}: {places}."]
    without = [host for host in read if host not in {part.host for part in run.parts}.union(dict(run.failed))]
    which = f"{', '.join(without)} list{'s' if len(without) == 1 else ''} no rank of it." if without and run.missing else ""
    if texts:
        blocks.append(" ".join((*(f"{text[:1].upper()}{text[1:]}." for text in texts), *([which] if which else []))))
    found = [item for item in outcome.findings if item.run == run.run.run_id] if outcome is not None else []
    blocks += [finding_text(item, number, len(found)) for number, item in enumerate(found, 1)]
    return "\n\n".join(blocks if found or texts else [*blocks, "Nothing is wrong among its hosts."])
