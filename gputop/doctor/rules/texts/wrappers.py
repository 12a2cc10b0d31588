"""Error texts of nn.DataParallel and DDP: the model was wrapped before it was moved (B09, C15), replicas do not share state
(B10), parameters get no gradient (C09), a checkpoint has different names (C13).
"""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.outputs import first_logged, outputs_of
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.facts.parallel import Ddp

UNUSED_ITERATIONS_MIN = 20
"""DDP's first iterations set everything up (docs/rules.md#c09)."""


def not_on_first_device(evidence: Evidence) -> dict[str, Judgement]:
    """B09: the weights were not on the wrapper's first device when it was called."""
    found: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        match = output.first("dp_not_on_dev0")
        if match is not None:
            found[output.subject] = tracked.from_text(
                output,
                match,
                "B09",
                "DataParallel: the model is not on its first GPU",
                "nn.DataParallel copies the weights from its first device to the others; it moves the module there itself "
                "only if it has a single device.",
                'model = nn.DataParallel(net.to("cuda:0"))  # device_ids[0]',
                "The text comes from a test that expects it.",
            )
    return found


B09 = Rule(
    id="B09",
    order=900,
    family="data parallel",
    title="The model is not on DataParallel's first GPU",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("the run's output or exception",),
    every_s=EVERY_SNAPSHOT,
    threshold="the text dp_not_on_dev0 in the run's output",
    hides=("A13", "G04"),
    mechanism=(
        "nn.DataParallel copies the weights from its first device to the others. It moves the module there itself only if "
        "it has a single device."
    ),
    signature='"module must have its parameters and buffers on device cuda:0".',
    look_alike="A test that expects this text.",
    fix='Move the model first: nn.DataParallel(net.to("cuda:0")).',
    judge_machine=not_on_first_device,
)


def replica_state(evidence: Evidence) -> dict[str, Judgement]:
    """B10: a replica failed because a tensor of the model stayed on another GPU, or for a reason in its message."""
    found: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        match, inner = output.first("dp_replica_error"), output.first("two_devices")
        if match is None or (inner is None and output.first("oom") is not None):
            continue
        if inner is None and "same device" in match.line:
            inner = match
        found[output.subject] = tracked.from_text(
            output,
            match,
            "B10",
            "DataParallel: a replica uses a tensor on another GPU" if inner is not None else "DataParallel: a replica failed",
            "Replicas get only copies of parameters and buffers. Tensors in lists or plain attributes, bound methods "
            "stored in __init__, and devices taken from the first parameter remain those of the original on GPU 0."
            if inner is not None
            else "A replica of the module failed; the message below the line says why. Replicas have no parameters of "
            "their own, and anything that forward writes to self is lost.",
            'self.register_buffer("mask", mask)  # instead of self.mask = mask or a list of tensors\n'
            "device = x.device  # instead of next(self.parameters()).device\n"
            "# better, one process per GPU: DistributedDataParallel",
            "The same failure occurs on one GPU, without nn.DataParallel.",
            confidence="certain" if inner is not None else "likely",
            also=()
            if inner is None or inner is match
            else (Fact(" ".join(inner.line.split())[:160], inner.line, "the run's output"),),
        )
    return found


B10 = Rule(
    id="B10",
    order=901,
    family="data parallel",
    title="A replica of DataParallel failed",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("the run's output or exception",),
    every_s=EVERY_SNAPSHOT,
    threshold="the text dp_replica_error; certain if tensors on two devices are the reason, otherwise likely",
    hides=("A13", "G04"),
    mechanism=(
        "Replicas get only copies of parameters and buffers. Tensors in lists or plain attributes, and bound methods, "
        "remain those of the original on the first GPU."
    ),
    signature='"Caught ... Error in replica 1 on device 1"; certain if tensors on two devices are the reason.',
    look_alike="A failure that also occurs on one GPU without the wrapper.",
    fix="Register such tensors with register_buffer and take the device from the input; better, use DDP.",
    judge_machine=replica_state,
)


def _needless_search(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge a live run: find_unused_parameters=True although every parameter is used."""
    if tracked.world(group) < 2:
        return None
    needless: list[Ddp] = []
    for rank in tracked.ranks_of(group):
        fact = facts_of(rank).ddp
        if fact is None:
            continue
        young = (fact.iteration or 0) < UNUSED_ITERATIONS_MIN
        if not fact.find_unused_parameters or fact.unused_parameter_bytes != 0 or young or fact.static_graph:
            return None
        needless.append(fact)
    if not needless:
        return None
    match = first_logged(evidence, group, "fup_useless")
    facts = [
        Fact("find_unused_parameters=True, and no parameter went unused", True, "journal: ddp"),
        Fact(f"after {needless[0].iteration} iterations", needless[0].iteration, "journal: ddp"),
    ]
    if match is not None:
        facts.append(Fact(" ".join(match.line.split())[:160], match.line, match.file or "the run's output"))
    finding = tracked.about(
        group,
        "C09",
        "info",
        "likely" if match is not None else "possible",
        "DDP looks for unused parameters in every step, and there are none",
        facts,
        "With find_unused_parameters=True, DDP walks the whole graph after each forward pass.",
        "model = DDP(model, device_ids=[local_rank])  # without find_unused_parameters\n"
        "# a graph that never changes but has unused parameters: static_graph=True",
        "Some batches take a different path through the model.",
    )
    return Suspicion(finding)


def unused_parameters(evidence: Evidence) -> dict[str, Judgement]:
    """C09: DDP stopped because parameters got no gradient or were ready twice, or it searches for unused ones needlessly."""
    found: dict[str, Judgement] = {group.key: _needless_search(evidence, group) for group in evidence.groups}
    for output in outputs_of(evidence):
        match = output.first("unused_params", "unused_idx")
        twice = output.first("ready_twice")
        if match is not None:
            indices = output.first("unused_idx")
            found[output.subject] = tracked.from_text(
                output,
                match,
                "C09",
                "DDP: parameters got no gradient",
                "DDP waits for the gradient of every parameter that it wrapped. Parameters that the loss does not depend "
                "on (a branch not taken, an unused head) get none, so the next forward pass stops with an error.",
                "for name, parameter in model.named_parameters():  # before optimizer.step(): shows which ones\n"
                "    if parameter.requires_grad and parameter.grad is None: print(name)\n"
                "# remove them or requires_grad_(False); if the path changes from batch to batch:\n"
                "model = DDP(model, device_ids=[local_rank], find_unused_parameters=True)",
                "The ranks took different paths by mistake. Then change the code, not the option.",
                also=()
                if indices in (None, match)
                else (Fact(" ".join(indices.line.split())[:160], indices.line, "the run's output"),)
                if indices is not None
                else (),
            )
        elif twice is not None:
            found[output.subject] = tracked.from_text(
                output,
                twice,
                "C09",
                "DDP: a parameter's gradient was ready twice in one backward pass",
                "Reentrant checkpointing, or a parameter shared by several graphs, marks the same parameter ready twice.",
                "checkpoint(block, x, use_reentrant=False)\n"
                '# or: model.gradient_checkpointing_enable({"use_reentrant": False})\n'
                "# or, if the graph never changes: DDP(model, device_ids=[local_rank], static_graph=True)",
                "The script calls forward several times before one backward pass on purpose.",
            )
    return found


C09 = Rule(
    id="C09",
    order=902,
    family="ddp",
    title="Unused parameters in DDP",
    severities=("error", "warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=("the run's output or exception", "journal: ddp"),
    every_s=EVERY_SNAPSHOT,
    threshold=(
        "the text unused_params, unused_idx or ready_twice; or find_unused_parameters=True and no parameter "
        f"unused in {UNUSED_ITERATIONS_MIN} iterations"
    ),
    mechanism=(
        "DDP waits for the gradient of every parameter that it wrapped. Parameters that the loss does not depend on get "
        "none. Searching for them (find_unused_parameters=True) costs a walk through the graph in every step."
    ),
    signature=(
        '"Expected to have finished reduction in the prior iteration", "marked ready twice", or '
        "find_unused_parameters although every parameter is used."
    ),
    look_alike="Ranks that took different paths through the code by mistake (C08).",
    fix=("Remove or freeze the parameters, or set find_unused_parameters=True; with checkpointing use use_reentrant=False."),
    judge_machine=unused_parameters,
)


def wrapped_too_early(evidence: Evidence) -> dict[str, Judgement]:
    """C15: DDP rejected a module that was on the CPU or had nothing to train."""
    found: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        early, needless = output.first("ddp_devids_cpu"), output.first("ddp_not_needed")
        if early is not None:
            found[output.subject] = tracked.from_text(
                output,
                early,
                "C15",
                "DDP got device_ids and a model that is not on that GPU",
                "The model was wrapped before it was moved: with device_ids, all its parameters must be on that GPU.",
                "model = Net().to(local_rank)\nmodel = DDP(model, device_ids=[local_rank])  # on a CPU: DDP(model)",
                "The model is spread over devices on purpose. Then leave device_ids out.",
            )
        elif needless is not None:
            found[output.subject] = tracked.from_text(
                output,
                needless,
                "C15",
                "DDP got a model without a trainable parameter",
                "When the model was wrapped, every parameter was frozen (requires_grad=False) or belonged to another module.",
                "# do not wrap a frozen or inference-only model; unfreeze the trained parameters before wrapping\n"
                "for parameter in model.head.parameters(): parameter.requires_grad_(True)",
                "The model is used only for inference.",
            )
    return found


C15 = Rule(
    id="C15",
    order=903,
    family="ddp",
    title="DDP wrapped the model too early",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("the run's output or exception",),
    every_s=EVERY_SNAPSHOT,
    threshold="the text ddp_devids_cpu or ddp_not_needed in the run's output",
    hides=("G04",),
    mechanism=("With device_ids, all parameters must already be on that GPU, and at least one parameter must need a gradient."),
    signature="DDP raises an error when it is constructed.",
    look_alike=("A model spread over devices on purpose (leave device_ids out), or a model for inference (do not wrap it)."),
    fix="Move and unfreeze the model first, then wrap it.",
    judge_machine=wrapped_too_early,
)


_WITHOUT_PREFIX = """\
state = torch.load(path, map_location="cpu")
nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
model.load_state_dict(state)
# from now on, save without the prefix: torch.save(model.module.state_dict(), path)"""
_LOAD_INSIDE = """\
model.module.load_state_dict(torch.load(path, map_location="cpu"))  # or load before wrapping"""


def prefixed_names(evidence: Evidence) -> dict[str, Judgement]:
    """C13: only one of a checkpoint and its model has names that begin with "module."."""
    found: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        match = output.first("module_prefix")
        if match is None:
            continue
        wrapped = 'Missing key(s) in state_dict: "module.' in match.line
        found[output.subject] = tracked.from_text(
            output,
            match,
            "C13",
            "The checkpoint was saved without the wrapper but is loaded into it"
            if wrapped
            else 'The checkpoint\'s names begin with "module.": it was saved from the wrapper',
            "nn.DataParallel and DDP keep the model under .module, and their state_dict puts that prefix before each name.",
            _LOAD_INSIDE if wrapped else _WITHOUT_PREFIX,
            "The names differ in more than the prefix.",
        )
    return found


C13 = Rule(
    id="C13",
    order=904,
    family="ddp",
    title='Checkpoint names begin with "module."',
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("the run's output or exception",),
    every_s=EVERY_SNAPSHOT,
    threshold="the text module_prefix in the run's output",
    hides=("G04",),
    mechanism=('nn.DataParallel and DDP keep the model under .module, and their state_dict puts "module." before each name.'),
    signature="load_state_dict reports missing and unexpected keys that differ by this prefix.",
    look_alike="Names that differ in more than the prefix.",
    fix="Save model.module.state_dict(), and strip the prefix when you load an older file.",
    judge_machine=prefixed_names,
)
