"""Hosts of one run whose GPUs differ (K04)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.facts.ddp import divides_models
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.hosts.places import runs_over_hosts
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.snapshot import Rank, Run
from gputop.units import bytes_text

MEMORY_RATIO = 0.75
"""As for the cards of one machine (I06)."""
SLOWER_SHARE = 0.1
"""As for the cards of one machine (I06); each rank of the host is compared with each rank of the others."""
STEPS = 20
"""As for the cards of one machine (I06)."""
HOLD_S = 10.0
"""How long that must hold (our choice)."""
FORWARD = "cuda/forward_s"


def unequal_hosts(evidence: Evidence) -> Mapping[str, Judgement]:
    """K04: the GPUs of one host are slower than those of the others with the same work, or have less memory."""
    return {run.run_id: _judged(evidence, run, hosts) for run, hosts in runs_over_hosts(evidence)}


def _judged(evidence: Evidence, run: Run, hosts: Mapping[str, Sequence[Rank]]) -> Judgement:
    times = {host: _forward_s(evidence, run, ranks) for host, ranks in hosts.items()}
    slow = None if divides_models(run.ranks) else _slow(times)  # each stage of a pipeline has its own time
    small = _small(hosts)
    if slow is None and small is None:
        return None
    facts = []
    if slow is not None:
        host, others = slow
        longer = min(times[host]) / max(others) - 1
        text = (
            f"the forward pass takes {min(times[host]) * 1e3:.1f} ms or more on {host}, {max(others) * 1e3:.1f} ms or less "
            "elsewhere"
        )
        facts.append(Fact(text, round(longer, 3), "CUDA events (journal)"))
        title = f"Unequal hosts: the GPUs of {host} take {longer * 100:.0f}% longer for the same work"
    if small is not None:
        host, own, most = small
        where = "cuda_memory of each rank (journal)"
        facts.append(Fact(f"GPUs have {bytes_text(own)} on {host}, {bytes_text(most)} elsewhere", own, where))
        if slow is None:
            title = f"Unequal hosts: the GPUs of {host} have {bytes_text(own)}, those of the others {bytes_text(most)}"
    counts = {name: len(ranks) for name, ranks in hosts.items()}
    if len(set(counts.values())) > 1:
        ranks_text = ", ".join(f"{words.count(number, 'rank')} on {name}" for name, number in sorted(counts.items()))
        facts.append(Fact(ranks_text, list(counts.values()), "journal"))
    finding = Finding(
        id="K04",
        severity="warning" if slow is not None else "info",
        confidence="likely" if slow is not None else "certain",
        title=title,
        evidence=tuple(facts),
        cause="Every rank gets the same amount of work and waits for the others in each step: the slowest GPUs set the "
        "pace for all hosts, and a batch must fit the smallest memory.",
        fix=filled(_FIX, {"host": host}),
        refuted_by="The ranks on that host have different work: longer sequences, larger images, another part of the model.",
        run=run.run_id,
    )
    return Suspicion(finding, HOLD_S)


_FIX = (
    "gputop -H {host}  # shows its cards, clocks and power limits\n"
    "nvidia-smi -q -d CLOCK,POWER,PERFORMANCE  # on {host}\n"
    "# use equal hosts (torchrun --nnodes, sbatch --constraint), or smaller batches on the slower ones"
)


def _forward_s(evidence: Evidence, run: Run, ranks: Sequence[Rank]) -> list[float]:
    """Return the typical forward time on each rank's GPU; empty if one of them does not report it."""
    found = []
    for rank in ranks:
        newest = evidence.series(run.run_id, rank.rank, FORWARD)[-STEPS:]
        if len(newest) < STEPS or not newest.finite():
            return []
        found.append(median(newest.values))
    return found


def _slow(times: Mapping[str, Sequence[float]]) -> tuple[str, list[float]] | None:
    """Return the one host on which every rank takes longer than each rank of the others, and the others' times."""
    if not all(times.values()):
        return None
    host = max(times, key=lambda name: min(times[name]))
    others = [value for name, values in times.items() if name != host for value in values]
    return (host, others) if max(others) > 0 and min(times[host]) >= (1 + SLOWER_SHARE) * max(others) else None


def _small(hosts: Mapping[str, Sequence[Rank]]) -> tuple[str, int, int] | None:
    """Return the host whose GPUs have the least memory, that memory, and the least of the others; None if all are alike."""
    sizes: dict[str, int] = {}
    for host, ranks in hosts.items():
        totals = [fact.total_bytes if (fact := facts_of(rank).cuda_memory) is not None else None for rank in ranks]
        known = [size for size in totals if size]
        if len(known) < len(totals):
            return None
        sizes[host] = max(known)
    host = min(sizes, key=lambda name: sizes[name])
    most = min(size for name, size in sizes.items() if name != host)
    return (host, sizes[host], most) if sizes[host] < MEMORY_RATIO * most else None


K04 = Rule(
    id="K04",
    order=2949,
    family="hosts",
    title="The hosts' GPUs are unequal",
    severities=("warning", "info"),
    confidences=("certain", "likely"),
    needs=("journal: cuda_memory, cuda/forward_s of the ranks of all hosts",),
    window_s=HOLD_S,
    every_s=RARELY_S,
    estimated=True,
    threshold=(
        f"on the GPU, the forward pass of each rank on one host takes {SLOWER_SHARE:.0%} longer than that of any other "
        f"rank, by medians over {STEPS} steps, if each rank holds the whole model (likely); or its GPUs have less than "
        f"{MEMORY_RATIO} of the others' memory (certain, information)"
    ),
    hides=("K01", "F01", "F02", "F04"),
    hides_if=lambda finding: finding.severity == "warning",
    hides_when="the GPUs of the host are slower",
    mechanism="Ranks get equal batches and wait for each other in each step: the slowest GPUs set the pace for all hosts.",
    signature="One of the hosts has a different GPU model, or a lower clock or power limit.",
    look_alike="K01 (a whole host is slow for another reason); F02 (one GPU of a host is slow); stages of a pipeline, "
    "whose work differs; hosts with fewer GPUs of the same model.",
    fix="Use equal hosts, raise the limit, or give the slower host less work.",
    judge_machine=unequal_hosts,
)
