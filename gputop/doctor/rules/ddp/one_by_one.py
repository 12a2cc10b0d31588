"""Gradients that a script averages by hand, with a call of all_reduce for each parameter (E11).

In a tracked run, the journal counts the calls. In any other, the main threads are seen at the line of the call.
"""

from __future__ import annotations

import re

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.calls import model_class
from gputop.doctor.facts.one_by_one import CALLS_MIN, PASSED_SHARE, averages_one_by_one
from gputop.doctor.facts.stated import facts_of, parameter_device
from gputop.doctor.findings import fixes
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.at_a_call import LOOKS_MIN, SEEN_SHARE, SPAN_S, of_text, seen_at_call
from gputop.doctor.rules.support.outside_phases import share_outside
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion

SHARE_MIN = 0.10
SURE_SHARE = 0.25
"""Share of a step outside of data, forward, backward and optimizer, on the rank where it is least: the others may wait for that
one. From the second on, the finding is likely (our choice)."""
_CAUSE = (
    "Each call waits until all ranks have made it, however few elements it passes on, and the next gradient waits for it. DDP "
    "passes on a few large buckets while backward still runs."
)
_OF_ONE_GRADIENT = re.compile(r"\ball_reduce\(\s*(?:[\w.\[\]]+\.grad|grad)(?:\.data)?\s*[,)]")
"""The gradient of one parameter: gradients that were put together have other names."""
_FIX = """\
model = DistributedDataParallel(model)  # averages a few large buckets while backward runs; remove the loop of all_reduce
# or, by hand, in one call:
grads = [p.grad for p in model.parameters() if p.grad is not None]
flat = torch._utils._flatten_dense_tensors(grads)
dist.all_reduce(flat)
flat /= dist.get_world_size()
for grad, mean in zip(grads, torch._utils._unflatten_dense_tensors(flat, grads)):
    grad.copy_(mean)"""


def reduces_each_gradient(evidence: Evidence, group: RankGroup) -> Judgement:
    """E11: each gradient is averaged with a call of its own, and the calls take a part of each step."""
    if group.run is None:
        return _seen_from_outside(evidence, group)
    ranks = tracked.ranks_of(group)
    found = averages_one_by_one(ranks)
    if found is None:
        return None
    known = [share_outside(evidence, group, rank) for rank in ranks]
    least = min((outside for outside in known if outside is not None), default=None)
    if least is None or None in known or least[0] < SHARE_MIN:
        return None
    share, seconds = least
    # Where a GPU computes on meanwhile, the host may only wait for it there.
    sure = share >= SURE_SHARE and not any((parameter_device(rank) or "").startswith("cuda") for rank in ranks)
    model = facts_of(ranks[0]).model
    largest = model.largest_parameter if model is not None else None
    calls = units.count(round(found.calls))
    finding = tracked.about(
        group,
        "E11",
        "warning",
        "likely" if sure else "possible",
        f"Gradients are averaged one by one: {calls} calls of all_reduce in each step",
        [
            Fact(
                f"{calls} calls of all_reduce in each step, of {units.count(round(found.elements))} elements on average",
                round(found.calls, 1),
                "journal: process_group",
            ),
            Fact(
                f"the largest of them passes on {units.count(largest)} elements, the size of the largest parameter",
                largest,
                "journal: process_group, model",
            ),
            Fact(f"no DDP, FSDP or other wrapper around {model_class(ranks[0]) or 'the model'}", None, "journal: model"),
            Fact(
                f"{share:.0%} of a step ({seconds * 1e3:.1f} ms) is not data, forward, backward or optimizer",
                round(share, 3),
                "journal: step_s, phase/*",
            ),
        ],
        _CAUSE,
        _FIX,
        "The time outside of the phases does not fall if the gradients are averaged in one call.",
    )
    return Suspicion(finding, 3.0)


def _seen_from_outside(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E11 for an untracked run, by the looks at its main threads."""
    found = seen_at_call(evidence, group, of_text(_OF_ONE_GRADIENT))
    if found is None:
        return None
    share, facts = found
    finding = tracked.about(
        group,
        "E11",
        "warning",
        "possible",
        f"Gradients are averaged one by one: a call of all_reduce for each takes {share:.0%} of the time",
        facts,
        _CAUSE,
        f"{_FIX}\n\ngputop run -- {fixes.own_command(group)}  # counts the calls of each step",
        "The model has few parameters, or the ranks wait there for one another, not for the network.",
    )
    return Suspicion(finding, 3.0)


E11 = Rule(
    id="E11",
    order=2955,
    family="efficiency",
    title="Gradients are averaged one by one",
    severities=("warning",),
    confidences=("likely", "possible"),
    needs=("journal: process_group, model, step_s, phase/*", "/proc/<pid>/mem"),
    window_s=3.0,
    every_s=RARELY_S,
    threshold=(
        f"without a wrapper, {CALLS_MIN} calls of all_reduce or more in each step, which pass on {PASSED_SHARE:.0%} of the "
        "trained parameters or more, the largest as many elements as the largest parameter has",
        f"and {SHARE_MIN:.0%} of a step passes outside of data, forward, backward and optimizer (likely from {SURE_SHARE:.0%}, "
        "but only possible with a GPU, for which the host may wait there)",
        f"from outside, by stacks: in {SPAN_S:.0f} s, the main thread of each rank is seen in {SEEN_SHARE:.0%} of {LOOKS_MIN} "
        "looks or more at a call of all_reduce with the gradient of one parameter (possible)",
    ),
    hides=("E06",),
    estimated=True,
    mechanism="Each call waits until all ranks have made it, and the next gradient waits for it. DDP passes on a few large "
    "buckets while backward still runs.",
    signature="There are as many calls of all_reduce in each step as the model has trained tensors.",
    look_alike="Flattened gradients; FSDP and DDP; tensor parallelism, which reduces activations; experts, which exchange "
    "tokens; metrics that are averaged once in each step.",
    fix="Wrap the model with DDP, or flatten the gradients and average them in one call.",
    judge=reduces_each_gradient,
)
