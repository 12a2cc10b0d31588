"""Ranks that train separate models on purpose: an ensemble, a search, a population. Pure.

Nothing states the purpose. But whoever starts one training on several ranks gives them the same settings, divides the data
between them, averages values over them, and saves one model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from gputop.command_line import script_name
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.ddp import exchanges
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.facts.parallel import ProcessGroup
from gputop.snapshot import Rank

RATES_MIN = 3
RATES_SHARE = 0.8
"""At this many steps, and at this share of the steps that all ranks report, the learning rates must differ (our choice). The
rates of one schedule are equal at each step, but ranks that lower theirs when their own loss stays the same may diverge
later."""
VOTES_MIN = 256
"""Elements of what ranks that compare their predictions pass on; metrics are smaller (our choice)."""
RARELY = 0.2
"""They do so after a part of an epoch: at most this often in a step (our choice)."""
_WORDS = re.compile(
    r"(?i)(?<![a-z])(?:ensembles?|members?|committees?|bagg(?:ing|ed)|populations?|pbt|sweeps?|"
    r"(?:grid|random|hyper[a-z]*|hp)_?search|hpo|trials?|(?:k_?|cross_?)?folds?|islands?|seeds)(?![a-z])"
)
"""What scripts are called whose ranks do not train one model."""


def settings_differ(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether the ranks train other models, or with other settings: nobody wants the average of their gradients."""
    ranks = tracked.ranks_of(group)
    models, optimizers = [facts_of(rank).model for rank in ranks], [facts_of(rank).optimizer for rank in ranks]
    trained = {(fact.class_, fact.trained_parameters) for fact in models if fact is not None}
    kinds = {fact.type for fact in optimizers if fact is not None}
    return len(trained) > 1 or len(kinds) > 1 or _rates_differ(evidence, group, ranks)


def may_be_meant(group: RankGroup) -> list[Fact]:
    """Return what hints at separate models on purpose; empty if nothing does, or if the script divides the data."""
    ranks = tracked.ranks_of(group)
    samplers = [facts_of(rank).sampler for rank in ranks]
    if any(sampler is not None and (sampler.replicas or 1) > 1 for sampler in samplers):
        return []
    groups = [facts_of(rank).process_group for rank in ranks]
    found = []
    if all(fact is not None and _compares(fact, rank) for fact, rank in zip(groups, ranks, strict=True)):
        found.append(Fact("now and then the ranks gather results, such as predictions", None, "journal: process_group"))
    seeds = [settings.seed if (settings := facts_of(rank).settings) is not None else None for rank in ranks]
    if all(fact is None for fact in groups) and None not in seeds and len(set(seeds)) == len(ranks):
        found.append(Fact("each rank has a seed of its own, and none joins a process group", seeds, "journal: settings"))
    saved = [facts_of(rank).checkpoint for rank in ranks]
    paths = {fact.path for fact in saved if fact is not None and fact.path is not None}
    if len(paths) == len(ranks):
        found.append(Fact("each rank saves a model of its own", sorted(paths), "journal: checkpoint"))
    return [*found, *named_after_several(group)]


def named_after_several(group: RankGroup) -> list[Fact]:
    """Return that the script is named after an ensemble, a search or the like; empty if it is not."""
    word = _WORDS.search(_script(group))
    return [Fact(f"the script is called {_script(group)}", word.group(), "/proc")] if word is not None else []


def _rates_differ(evidence: Evidence, group: RankGroup, ranks: Sequence[Rank]) -> bool:
    rates = [evidence.series(group.run_id, rank.rank, "lr") for rank in ranks]
    if len(rates) < 2 or not all(rates):
        return False
    by_step = [dict(zip(series.steps, series.values, strict=True)) for series in rates]
    common = set(by_step[0]).intersection(*by_step[1:])
    differ = sum(len({rates[step] for rates in by_step}) > 1 for step in common)
    return differ >= RATES_MIN and differ >= RATES_SHARE * len(common)


def _compares(fact: ProcessGroup, rank: Rank) -> bool:
    """Return whether a rank now and then gathers results, and averages nothing as small as a metric."""
    calls, steps = exchanges(fact), rank.steps_taken or 0
    if not 0 < calls <= RARELY * steps:
        return False
    reduced = sum(count for name, count in fact.collectives.items() if "reduce" in name)
    return not reduced or (fact.largest or 0) >= VOTES_MIN


def _script(group: RankGroup) -> str:
    """Return the script's name; "" if unknown."""
    commands = [member.process.command for member in group.members if member.process is not None]
    return PurePath(script_name(commands[0]) or "").name if commands else ""
