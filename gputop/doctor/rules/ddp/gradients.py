"""Gradients that are not averaged: DDP is bypassed (C01), the model changed after wrapping (C02), or is not wrapped (C03)."""

from __future__ import annotations

from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import stated
from gputop.doctor.facts.calls import model_class, parameter_dtypes, wrapped_by
from gputop.doctor.facts.ddp import divides_models, exchanges, has_engine, passes_weights, weights_differ, weights_met
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.ddp.alike import GROUPED_HOLD_S, separate_worlds
from gputop.doctor.rules.ddp.by_hand import divides_by_hand, equal_losses
from gputop.doctor.rules.ddp.on_purpose import may_be_meant, settings_differ
from gputop.doctor.rules.ddp.variables import goes_unused, goes_without, learns_later
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.equal_losses import VALUES_MIN
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, SELDOM_S, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import through_the_wrapper
from gputop.facts.parallel import Ddp
from gputop.snapshot import Rank
from gputop.whereabouts.records import FORWARD_MIN

BYPASSED_STEPS_MIN = 5
"""Consecutive optimizer steps without a call of the wrapper (docs/rules.md#c01)."""
STEPS_MIN = 20
"""Steps without a collective after which a missing wrapper is a fault (docs/rules.md#c03)."""
APART_STEPS = 200
"""Steps that ranks may train apart before they average their weights (local SGD, DiLoCo, federated rounds); only after more is
the finding certain (our choice)."""
_RIGHT_ORDER = """\
model = Net().to(device)  # 1 move, convert the dtype, load weights, replace layers
model = DDP(model, device_ids=[local_rank])  # 2 wrap
optimizer = torch.optim.{optimizer}(model.parameters(), ...)  # 3 the optimizer last"""
_THAWED = """\
model = Net(); freeze(model)
ddp = DDP(model, device_ids=[local_rank])
# after each change of requires_grad, wrap it again, on all ranks at the same step:
thaw(model)
ddp = DDP(model, device_ids=[local_rank])  # then the optimizer, or optimizer.add_param_group(...)"""
_WRAP = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = DDP(model.to(local_rank), device_ids=[local_rank])  # and call model(x), not model.module(x)"""
_WRAP_CPU = """\
dist.init_process_group("gloo")
model = DDP(model)  # and call model(x), not model.module(x)"""


def differing_weights(ranks: tuple[Rank, ...], from_step: int = 0) -> tuple[bool | None, list[Fact]]:
    """Return whether the ranks' weights differ (None: unknown), with the evidence."""
    found = weights_differ(ranks, from_step)
    if found is None:
        return None, []
    step, differ = found
    text = f"at step {units.count(step)} the weights {'differ between' if differ else 'are the same on'} the ranks"
    return differ, [Fact(text, differ, "journal: parameters")]


def goes_around(evidence: Evidence, group: RankGroup) -> Judgement:
    """C01: the script calls the module inside DDP, so the hooks never average the gradients."""
    if tracked.world(group) < 2:
        return None
    if group.run is None:
        return goes_unused(evidence, group)
    ranks = tracked.ranks_of(group)
    around = [(rank, found) for rank in ranks if wrapped_by(rank) == "ddp" and (found := _bypass(rank)) is not None]
    if not around:
        return None
    differ, weights = differing_weights(ranks)
    if differ is False:
        return None
    synced = [fact.synced_backwards for rank, _ in around if (fact := facts_of(rank).gradients) is not None]
    by_hand = any((own := facts_of(rank).process_group) is not None and exchanges(own) > 0 for rank, _ in around)
    if differ is None and by_hand:
        return None
    bypass = around[0][1]
    who = tracked.who([item.rank for item, _ in around], tracked.world(group))
    text = f"{bypass.steps} consecutive steps {bypass.text}, on {who}"
    facts = [Fact(text, bypass.steps, "journal: wrapper_calls"), *weights]
    if synced:
        facts.append(Fact(f"backward passes that DDP reduced: {min(synced)}", min(synced), "journal: gradients"))
    finding = tracked.about(
        group,
        "C01",
        "error",
        "certain" if differ else "likely",
        f"DDP is bypassed: {words.count(tracked.world(group), 'rank')} train {tracked.world(group)} different models",
        facts,
        "DDP prepares the averaging of gradients when the script calls the wrapper itself. After model.module(x) or "
        "model.module.method(x), each rank steps with its own gradients, faster and without an error.",
        through_the_wrapper(bypass.module, bypass.where),
        "The script averages the gradients by hand (dist.all_reduce), so the weights stay equal.",
    )
    return Suspicion(finding)


C01 = Rule(
    id="C01",
    order=1201,
    family="ddp",
    title="DDP is bypassed",
    severities=("error",),
    confidences=("certain", "likely", "possible"),
    needs=("journal: wrapper_calls, parameters, gradients", "/proc: variables, stacks"),
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"{BYPASSED_STEPS_MIN} consecutive steps call only the module inside DDP, or none of {STEPS_MIN} steps calls either, "
        "and DDP averages no gradients; certain if the weights differ",
        f"untracked, variables hold a model in DDP, which {FORWARD_MIN} looks at forward passes never show (possible)",
    ),
    hides=("C04",),
    mechanism=(
        "DDP prepares the averaging of gradients when the script calls the wrapper itself. After model.module(x), each "
        "rank steps with its own gradients, faster and without an error."
    ),
    signature="Steps run without a call of the wrapper; certain if the ranks' weights differ.",
    look_alike=(
        "Gradients that the script averages by hand; an auxiliary call of the inner module in addition to calls of the wrapper."
    ),
    fix="Call the wrapper, model(x), and call other methods through forward.",
    judge=goes_around,
)


def changed_after_wrapping(evidence: Evidence, group: RankGroup) -> Judgement:
    """C02: parameters were replaced, or moved to another device or dtype, after DDP wrapped them, or were thawed then."""
    if tracked.world(group) < 2:
        return None
    if group.run is None:
        return learns_later(evidence, group, _THAWED)
    ranks = tracked.ranks_of(group)
    for rank in ranks:
        fact = facts_of(rank).ddp
        if fact is None or wrapped_by(rank) == "sharded":
            continue
        changes = _changes(rank, fact)
        if not changes:
            continue
        differ, weights = differing_weights(ranks)
        finding = tracked.about(
            group,
            "C02",
            "error",
            "certain",
            "The model changed after DDP wrapped it: its gradients are not averaged",
            [*changes, *(weights if differ else ())],
            "DDP keeps the parameters that it was given and averages their gradients. Each rank trains parameters on its "
            "own if they were added later, or moved to another device or dtype.",
            _RIGHT_ORDER.format(optimizer=_optimizer(rank)),
            "The changed parameters are frozen, or the script averages them by hand.",
        )
        return Suspicion(finding)
    return None


C02 = Rule(
    id="C02",
    order=1200,
    family="ddp",
    title="The model changed after DDP wrapped it",
    severities=("error",),
    confidences=("certain", "possible"),
    needs=("journal: ddp, model", "/proc: variables"),
    every_s=SELDOM_S,
    threshold=(
        "a wrapped parameter was replaced, or has another dtype or device than at wrapping",
        "untracked, the only optimizer updates more tensors than when it was first seen, as many on each rank, while the only "
        "model in DDP stays the same, without find_unused_parameters or static_graph (possible)",
    ),
    hides=("C01", "C04"),
    mechanism=(
        "DDP keeps the parameters that it was given and averages their gradients. Each rank trains parameters on its own "
        "if they were replaced, moved or thawed later."
    ),
    signature="A parameter is not the one that DDP wrapped, or has another dtype or device than at wrapping.",
    look_alike="Changed parameters that are frozen or that the script averages by hand; a model that is wrapped again after it "
    "was thawed.",
    fix="Build, move and convert the model first, then wrap it, then create the optimizer.",
    judge=changed_after_wrapping,
)


def _changes(rank: Rank, fact: Ddp) -> list[Fact]:
    found = []
    if fact.replaced_parameters:
        text = f"{words.count(fact.replaced_parameters, 'parameter')} of rank {rank.rank} are not those that DDP wrapped"
        found.append(Fact(text, fact.replaced_parameters, "journal: ddp"))
    device = stated.parameter_device(rank)
    if fact.parameter_device is not None and device is not None and device != fact.parameter_device:
        found.append(Fact(f"wrapped on {fact.parameter_device}, now on {device}", device, "journal: ddp, model"))
    dtypes = parameter_dtypes(rank)
    wrapped = (fact.parameter_dtype or "").removeprefix("torch.")
    if wrapped and dtypes and wrapped not in dtypes:
        now = ", ".join(dtypes)
        found.append(Fact(f"wrapped as {wrapped}, now {now}", list(dtypes), "journal: ddp, model"))
    return found


def _optimizer(rank: Rank) -> str:
    optimizer = facts_of(rank).optimizer
    name = optimizer.type if optimizer is not None else None
    return name if name is not None and name.isidentifier() else "AdamW"


def not_wrapped(evidence: Evidence, group: RankGroup) -> Judgement:
    """C03: several ranks, no wrapper, and nothing that averages gradients: each rank trains its own model."""
    size = tracked.world(group)
    if size < 2:
        return None
    wrap = _WRAP_CPU if group.virtual or not group.used else _WRAP
    outside = separate_worlds(evidence, group) or goes_without(evidence, group, wrap) if group.run is None else None
    if outside is not None:
        return outside
    if tracked.unseen_ranks(evidence, group):
        return _outside(evidence, group)
    ranks = tracked.ranks_of(group)
    if not tracked.all_speak(group) or any(wrapped_by(rank) is not None for rank in ranks):
        return None
    if not all(stated.model_inspected(rank) for rank in ranks) or divides_models(ranks) or has_engine(ranks):
        return None
    if divides_by_hand(evidence, group):
        return None
    if min((rank.steps_taken or 0) for rank in ranks) < STEPS_MIN or _nccl_counts(evidence, group):
        return None
    differ, weights = differing_weights(ranks, STEPS_MIN)
    process_groups = [facts_of(rank).process_group for rank in ranks]
    most = max((exchanges(fact) for fact in process_groups if fact is not None), default=0)
    if differ is not True and all(fact is None for fact in process_groups):
        return _same_worlds(evidence, group, weights)
    silent = most == 0 and (differ is True or all(fact is not None for fact in process_groups))
    if not silent and not differ:
        return None
    if differ is False and most:
        return None
    if most and (weights_met(ranks, STEPS_MIN) or all(passes_weights(rank) for rank in ranks)):
        return None  # Local SGD: the script averages the weights by hand from time to time.
    if settings_differ(evidence, group):
        return None  # a search or a population
    connected = any(fact is not None for fact in process_groups)
    early = silent and connected and min((rank.steps_taken or 0) for rank in ranks) < APART_STEPS
    often = most > (ranks[0].steps_taken or 0)  # More than averaging one loss in each step.
    calls = sum(sum(fact.collectives.values()) for fact in process_groups if fact is not None)
    facts = [
        Fact(
            f"no DDP, FSDP or other wrapper around {model_class(ranks[0]) or 'the model'} on any rank", None, "journal: model"
        ),
        Fact(
            f"{words.count(most, 'collective')} that could average gradients, in "
            f"{units.count(ranks[0].steps_taken)} steps ({units.count(calls)} in "
            "total)",
            most,
            "journal: process_group",
        ),
        *weights,
        *(hints := may_be_meant(group)),
    ]
    finding = tracked.about(
        group,
        "C03",
        "error",
        "possible" if often or early or hints else "certain" if silent else "likely",
        f"The model is not wrapped: {size} ranks train {size} separate models",
        facts,
        "The launcher starts the ranks, but nothing connects them: without DistributedDataParallel or FSDP, they exchange "
        "no gradients, and each rank learns only from its own part of the data.",
        wrap,
        "The ranks are independent on purpose, average their weights after some hundred steps, or an engine averages the "
        "gradients outside torch.distributed.",
    )
    return Suspicion(finding)


C03 = Rule(
    id="C03",
    order=1202,
    family="ddp",
    title="The model is not wrapped",
    severities=("error",),
    confidences=("certain", "likely", "possible"),
    needs=("journal: model, process_group, parameters", "NCCL RAS", "/proc: connections between ranks", "the run's output"),
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"several ranks, no wrapper, and no collective that could average gradients in {STEPS_MIN} steps",
        "this is likely if there are some collectives and the weights differ, possible if there is more than one in each step, "
        f"or the ranks have a process group and less than {APART_STEPS} steps",
        "also possible, unless a sampler divides the data: if all that the ranks exchange is predictions now and then, if each "
        "one has a seed of its own and none joins a process group, if each one saves a model of its own, or if the script is "
        "named after an ensemble, a search or the like",
        f"no rank has a process group, and {VALUES_MIN} losses or more are equal on all",
        "untracked, ranks that train and are connected neither to each other nor to where they would meet: certain if they "
        f"print equal losses for {VALUES_MIN} values or more, otherwise possible; also with a process group, after "
        f"{GROUPED_HOLD_S:g} s (possible)",
        "not if calls pass values on in each step or tensors as large as the largest parameter, different weights give the "
        "same loss, or the ranks train other models or with other learning rates",
    ),
    hides=("C05", "C10", "C11", "C12"),
    mechanism=("The launcher starts the ranks, but nothing connects them. Without DDP or FSDP, they exchange no gradients."),
    signature=(
        "Several ranks train without a wrapper and without collectives that could average gradients, and their weights differ."
    ),
    look_alike="Tensor parallelism, DeepSpeed, Megatron, Horovod, or averaging by hand, even if only of weights and only "
    "from time to time; an ensemble, a search or a population, of which each rank trains a member.",
    fix="Wrap the model: DDP(model.to(local_rank), device_ids=[local_rank]).",
    judge=not_wrapped,
)


def _same_worlds(evidence: Evidence, group: RankGroup, weights: list[Fact]) -> Judgement:
    """Judge ranks none of which has joined a process group: equal losses show that they do the same work."""
    ranks, size = tracked.ranks_of(group), tracked.world(group)
    name = tracked.loss_of(ranks)
    losses = equal_losses(evidence, group, ranks, name) if name is not None else 0
    if losses < VALUES_MIN or settings_differ(evidence, group):
        return None
    finding = tracked.about(
        group,
        "C03",
        "error",
        "certain",
        f"{size} ranks train the same model {size} times: nothing connects them",
        [
            Fact("no rank has joined a process group", None, "journal: process_group"),
            Fact(f"they had the same loss, to the last digit, in {units.count(losses)} steps", losses, f"journal: {name}"),
            *weights,
        ],
        "The launcher sets RANK and WORLD_SIZE, but the script never calls init_process_group, so each rank trains alone, with "
        "the same seed and the same data: all but one are wasted.",
        _WRAP_CPU if group.virtual or not group.used else _WRAP,
        "The ranks exchange gradients in another way, such as through files.",
    )
    return Suspicion(finding)


def _outside(evidence: Evidence, group: RankGroup) -> Judgement:
    if _nccl_counts(evidence, group):
        return None
    why = "Whether the ranks exchange gradients is not visible from outside (NCCL's RAS service does not report it)."
    return tracked.untracked("C03", group, why)


def _nccl_counts(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether NCCL itself counted collectives that may average gradients."""
    return any(
        count > 0 and name.lower() in ("allreduce", "reducescatter", "allgather", "reduce", "alltoall")
        for communicator in evidence.communicators(group)
        for rank in communicator.ranks
        for name, count in rank.counts.items()
    )


def is_bypassed(rank: Rank) -> bool:
    """Return whether the newest steps called only the module inside DDP, or only methods of it (C01)."""
    return _bypass(rank) is not None


class _Bypass(NamedTuple):
    """How many steps went past the wrapper, what they did instead, and, if known, where."""

    steps: int
    text: str
    module: str
    where: str | None = None


def _bypass(rank: Rank) -> _Bypass | None:
    calls, counted = facts_of(rank).wrapper_calls, facts_of(rank).gradients
    module = (calls.module if calls is not None else None) or model_class(rank) or "the module"
    if calls is not None and (calls.bypassed_steps or 0) >= BYPASSED_STEPS_MIN:
        text = f"called {module} inside the wrapper{tracked.at(calls.where)}"
        return _Bypass(calls.bypassed_steps or 0, text, module, calls.where)
    if calls is not None and (calls.wrapped or calls.bypassed):
        return None
    # A method of the module calls neither, but a compiled wrapper's calls may not be seen either: then DDP averages.
    if counted is None or counted.synced_backwards != 0 or counted.steps < STEPS_MIN:
        return None
    return _Bypass(counted.steps, "never called the wrapper", module)


def is_changed(rank: Rank) -> bool:
    """Return whether parameters are no longer what DDP wrapped (C02)."""
    fact = facts_of(rank).ddp
    return fact is not None and bool(_changes(rank, fact))
