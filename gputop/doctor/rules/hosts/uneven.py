"""Hosts of one run whose steps take different times (K01)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import WARM_UP_STEPS, Evidence
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.hosts.links import BUSY_SHARE, busy_share, slower_link
from gputop.doctor.rules.hosts.paths import slow_link
from gputop.doctor.rules.hosts.places import runs_over_hosts
from gputop.doctor.rules.hosts.traffic import interfaces_in_use
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.joined.runs import BACKWARD, SLOWER_SHARE, STEP, Pace, Slowest, slowest
from gputop.network.words import speed_text
from gputop.snapshot import Rank, Run

WINDOWS, WINDOW_STEPS = 3, 20
"""As for a rank that the others wait for (F01)."""
HOLD_S = 30.0
"""Together with the window of steps before it, about a minute: an evaluation on one host is over by then (our choice)."""


def uneven_hosts(evidence: Evidence) -> Mapping[str, Judgement]:
    """K01: all ranks of one host take longer for a step than those of the others."""
    return {run.run_id: _judged(evidence, run, hosts) for run, hosts in runs_over_hosts(evidence)}


def _judged(evidence: Evidence, run: Run, hosts: Mapping[str, Sequence[Rank]]) -> Judgement:
    seen: list[Slowest] = []
    for back in range(WINDOWS):  # Newest window first: if the hosts are even, it is enough.
        paces = {host: _paces(evidence, run, ranks, back) for host, ranks in hosts.items()}
        if not all(paces.values()):
            return None
        found = slowest({host: _mean(each) for host, each in paces.items()})
        if found is None or not _apart(paces, found):
            return None
        seen.append(found)
    if len({(one.host, one.waited_for) for one in seen}) > 1:
        return None
    host, share = seen[0].host, units.mean([one.share for one in seen])
    ranks = words.ranks([rank.rank for rank in hosts[host]])
    percent = f"{share * 100:.0f}%"
    if seen[0].waited_for:
        title = f"Uneven hosts: the others wait {percent} of each step for {host}"
        text = f"the backward pass is shortest on {host} ({ranks}), by {percent} of a step: it waits for no other host"
    else:
        title = f"Uneven hosts: {host} takes {percent} longer for a step"
        text = f"a step takes {percent} longer on {host} ({ranks}) than on the other hosts"
    steps = WINDOWS * WINDOW_STEPS
    facts: tuple[Fact, ...] = (
        Fact(text, round(share, 3), "journal: step_s, phase/backward of all ranks"),
        Fact(f"in each of {WINDOWS} windows of {WINDOW_STEPS} steps, on all its ranks", steps, "journal"),
    )
    cause, fix, link = _CAUSE, filled(_FIX, {"host": host}), _slow_link(evidence, hosts, host)
    if link is not None:
        facts, cause = (*facts, link), _LINK_CAUSE
        fix = f"gputop doctor -H {fixes.shell_word(','.join(hosts))}  # names the link (K05, K07), and what to look at\n{fix}"
    finding = Finding("K01", "warning", "likely", title, facts, cause, fix, _REFUTED, run=run.run_id)
    return Suspicion(finding, HOLD_S)


def _slow_link(evidence: Evidence, hosts: Mapping[str, Sequence[Rank]], host: str) -> Fact | None:
    """Return what shows that the network of this host is slower than that of the others; None if nothing does."""
    found = slow_link(evidence, hosts)
    if found is not None and found[0] == host:
        speed = max(path.speed_mbit_per_s or 0.0 for path in found[2])
        text = f"its network carries {speed_text(speed)} while data waits, that of the others {speed_text(found[3])} or more"
        return Fact(text, round(speed, 1), "TCP (sock_diag)")
    slower = slower_link({name: interfaces_in_use(evidence, name) for name in hosts})
    if slower is None or slower[0] != host or (busy_share(slower[1]) or 0.0) < BUSY_SHARE:
        return None
    _, interface, usual = slower
    text = f"its {interface.name} runs at {speed_text(interface.speed_mbit_per_s)}, those of the others at {speed_text(usual)}"
    return Fact(text, interface.speed_mbit_per_s, "/sys/class/net, /sys/class/infiniband")


def _paces(evidence: Evidence, run: Run, ranks: Sequence[Rank], back: int) -> list[Pace]:
    """Return the pace of each rank in one window of its newest steps; empty if one of them does not report it."""
    paces = []
    for rank in ranks:
        steps = evidence.series(run.run_id, rank.rank, STEP)
        window = steps[len(steps) - (back + 1) * WINDOW_STEPS : len(steps) - back * WINDOW_STEPS]
        if len(steps) < (back + 1) * WINDOW_STEPS or min(window.steps) < WARM_UP_STEPS or not window.finite():
            return []
        backward = evidence.series(run.run_id, rank.rank, BACKWARD)
        known = list(windows.at(backward, set(window.steps)).values())
        paces.append(Pace(units.mean(window.values), units.mean(known) if known else None))
    return paces


def _mean(paces: Sequence[Pace]) -> Pace:
    backward = [pace.backward_s for pace in paces if pace.backward_s is not None]
    return Pace(units.mean([pace.step_s for pace in paces]), units.mean(backward) if len(backward) == len(paces) else None)


def _apart(paces: Mapping[str, Sequence[Pace]], found: Slowest) -> bool:
    """Return whether each rank of the host differs from each rank of the others; if not, one rank is slow, not a host (F01)."""
    own = paces[found.host]
    others = [pace for host, held in paces.items() if host != found.host for pace in held]
    if found.waited_for:
        return max(pace.backward_s or 0.0 for pace in own) < min(pace.backward_s or 0.0 for pace in others)
    return min(pace.step_s for pace in own) > max(pace.step_s for pace in others)


_CAUSE = (
    "Ranks exchange gradients in each step, so the slowest host sets the pace for all. If a whole host is slow, the reason "
    "is on that host: lower clocks, fewer cores, a slower disk or network, or another user's work."
)
_LINK_CAUSE = (
    "Ranks exchange gradients in each step, so the slowest host sets the pace for all. The link of this host is slower than "
    "those of the others: what it exchanges takes longer."
)
_FIX = (
    "gputop -H {host}  # shows its clocks, power limits, cores, disk and other users\n"
    "# leave the host out (torchrun --nnodes), or give its ranks less work"
)
_REFUTED = "The slowest host changes."

K01 = Rule(
    id="K01",
    order=2950,
    family="hosts",
    title="One host is slower than the others",
    severities=("warning",),
    confidences=("likely",),
    needs=("journal: step_s, phase/backward of the ranks of all hosts",),
    window_s=60.0,
    every_s=RARELY_S,
    estimated=True,
    threshold=(
        f"each rank of one host differs from each rank of the others, by means over {WINDOW_STEPS} steps, and the hosts "
        f"differ by {SLOWER_SHARE:.0%} of a step, in each of {WINDOWS} windows, for {HOLD_S:.0f} s"
    ),
    hides=("F01", "F02", "F03", "F04", "F05"),
    mechanism=_CAUSE,
    signature="All ranks of one host always have the shortest backward pass or the longest steps.",
    look_alike="One slow rank on a host (F01); hosts that are slow in turn, for example because batches differ in length.",
    fix="Compare the hosts: clocks, power limits, cores, disk, network, other work. Leave the slow host out.",
    judge_machine=uneven_hosts,
)
