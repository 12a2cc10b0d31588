"""E09 from outside: ranks that pass gradients or weights on as Python objects, by the lines at which they are seen. Pure."""

from __future__ import annotations

import re

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import fixes
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.at_a_call import seen_at_call
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.whereabouts.records import Doing

SURE_SHARE = 0.5
"""Likely if each rank is in a collective in this share of its looks (our choice): they cannot all wait for one another that
long."""
_COLLECTIVES = re.compile(
    r"(all_gather|gather|broadcast|scatter|send|recv)_object(_list)?\(|\bcomm\w*\.(allreduce|allgather|gather|reduce|bcast)\("
)
"""Collectives of torch and of mpi4py that pickle what they pass on."""
_MESSAGES = re.compile(r"\bpickle\.(dumps|loads)\(|\.(put|send)\(")
"""Pickling, and queues and pipes of multiprocessing: workers of a parameter server send to it this way, too."""
_OF_GRADIENTS = re.compile(r"(?i)grad|weights|param|state_?dict|(sync|average|merge|reduce)_(model|net)")
HOLD_S = 3.0


def passes_objects(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E09 for an untracked run: each rank is often seen where it pickles gradients or weights for the others."""
    found = seen_at_call(evidence, group, _passes_gradients)
    if found is None:
        return None
    share, facts = found
    collective = seen_at_call(evidence, group, _exchanges_gradients)
    finding = tracked.about(
        group,
        "E09",
        "warning",
        "likely" if collective is not None and collective[0] >= SURE_SHARE else "possible",
        f"Gradients are averaged by hand, as pickled objects: that takes {share:.0%} of the time",
        facts,
        "Each rank turns all of its gradients or weights into bytes, sends them to every other one, and reads theirs back, in "
        "one Python thread and with a copy of each. DDP passes on tensors as they are, in large buckets, while the backward "
        "pass still runs.",
        "model = DistributedDataParallel(model)  # averages gradients by itself\n"
        "# or, by hand, as one tensor:\n"
        "flat = torch._utils._flatten_dense_tensors([p.grad for p in model.parameters() if p.grad is not None])\n"
        f"dist.all_reduce(flat); flat /= dist.get_world_size()\n\ngputop run -- {fixes.own_command(group)}  # times each step",
        "What is passed on is small, and the ranks wait there for something else.",
    )
    return Suspicion(finding, HOLD_S)


def _exchanges_gradients(look: Doing) -> bool:
    return _is_of_gradients(look, _COLLECTIVES)


def _passes_gradients(look: Doing) -> bool:
    return _is_of_gradients(look, _COLLECTIVES) or _is_of_gradients(look, _MESSAGES)


def _is_of_gradients(look: Doing, call: re.Pattern[str]) -> bool:
    text = look.text or ""
    return call.search(text) is not None and _OF_GRADIENTS.search(f"{text} {look.function}") is not None
