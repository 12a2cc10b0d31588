"""A model that is trained in evaluation mode (J07): its dropout is off, and its BatchNorm keeps old statistics."""

from __future__ import annotations

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.snapshot import Rank

STEPS_MIN = 100
"""This many steps in evaluation mode are more than a short phase (our choice)."""
PART_SHARE = 0.5
"""This share of the dropout layers is off: a few may be off on purpose (our choice)."""
HELD_HOLD_S, CHANGED_HOLD_S = 25.0, 45.0
"""Of an untracked run, two looks at its variables must show it; three if it is to be likely (our choice)."""
_EFFECTS = {"dropout": "dropout layers, which drop nothing", "BatchNorm": "BatchNorm layers, which keep their statistics"}


def trains_in_evaluation_mode(evidence: Evidence, group: RankGroup) -> Judgement:
    """J07: the model is called only in evaluation mode, though its weights are trained, and that makes a difference."""
    if group.run is None:
        return _held(evidence, group)
    rank = next((item for item in tracked.ranks_of(group) if _affected(item)), None)
    if not evidence.progressing(group):
        return None
    if rank is None:
        return _in_part(group)
    model = facts_of(rank).model
    since, steps = (model.evaluation_mode_from if model is not None else None), rank.steps_taken
    if model is None or since is None or steps is None or steps - since < STEPS_MIN:
        return None
    changed = since > 0
    parts = [
        text
        for number, text in (
            (model.dropout, _EFFECTS["dropout"]),
            (model.batch_norm.layers if model.batch_norm is not None else 0, _EFFECTS["BatchNorm"]),
        )
        if number
    ]
    facts = [
        Fact(
            f"every call of the model since step {units.count(since)} was in evaluation mode, for {units.count(steps - since)} "
            "steps",
            steps - since,
            "journal: model",
        ),
        Fact(f"it has {', and '.join(parts)}", model.dropout or 0, "journal: model"),
    ]
    if changed:
        facts.append(Fact("before, it was in training mode", since, "journal: model"))
    return Suspicion(_finding(group, facts, f" since about step {units.count(since)}" if changed else "", changed=changed), 5.0)


def _in_part(group: RankGroup) -> Judgement:
    """Judge a model that is in training mode, but for a part of it that is trained as well."""
    for rank in tracked.ranks_of(group):
        model, steps = facts_of(rank).model, rank.steps_taken
        if model is None or not model.dropout or not model.dropout_off or steps is None or steps < STEPS_MIN:
            continue
        if model.dropout_off < PART_SHARE * model.dropout:
            continue
        text = f"{model.dropout_off} of {units.count(model.dropout)} dropout layers are in evaluation mode, the model is not"
        finding = tracked.about(
            group,
            "J07",
            "warning",
            "possible",
            f"A part of the model is trained in evaluation mode: {model.dropout_off} dropout layers drop nothing",
            [Fact(text, model.dropout_off, "journal: model")],
            "Transformers' from_pretrained returns a model in evaluation mode, and since 2.2 Lightning leaves each part in the "
            "mode that it finds. Or the script calls eval() on it.",
            "model = AutoModel.from_pretrained(name).train()  # or: self.train() in on_train_epoch_start",
            "The part is meant to be trained without dropout.",
        )
        return Suspicion(finding, 5.0)
    return None


def _held(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge an untracked run by its variables, looked at while its steps compute."""
    for process in (member.process for member in group.members):
        models = process.held.models if process is not None and process.held is not None else None
        if process is None or models is None or not models.evaluates or not models.differs or not evidence.trains(group):
            continue
        source = f"/proc/{process.pid}/mem"
        names = " and ".join(models.names)
        layers = ", and ".join(_EFFECTS[name] for name in models.differs if name in _EFFECTS)
        facts = [
            Fact(f"{names} is in evaluation mode while its gradients are computed", False, source),
            Fact(f"it has {layers}", len(models.differs), source),
        ]
        changed = evidence.held.has_trained(process)
        if changed:
            facts.append(Fact("it was in training mode before", True, source))
        return Suspicion(_finding(group, facts, changed=changed), CHANGED_HOLD_S if changed else HELD_HOLD_S)
    return None


def _finding(group: RankGroup, facts: list[Fact], since: str = "", *, changed: bool) -> Finding:
    return tracked.about(
        group,
        "J07",
        "warning",
        "likely" if changed else "possible",
        f"The model is trained in evaluation mode{since}",
        facts,
        "The script calls model.eval() before an evaluation, and model.train() only once, before all epochs."
        if changed
        else "Nothing calls model.train(): a model that Transformers loads with from_pretrained is in evaluation mode.",
        "for epoch in range(epochs):\n    model.train()  # in each epoch: the evaluation leaves the model in eval()",
        "Dropout and BatchNorm are meant to be off, as in some fine-tuning.",
    )


def _affected(rank: Rank) -> bool:
    """Return whether training and evaluation mode differ for a rank's model, and it is in the latter."""
    model = facts_of(rank).model
    if model is None or model.evaluation_mode_from is None:
        return False
    return bool(model.dropout or (model.batch_norm is not None and model.batch_norm.layers))


J07 = Rule(
    id="J07",
    order=1710,
    family="learning",
    title="The model is trained in evaluation mode",
    severities=("warning",),
    confidences=("likely", "possible"),
    needs=("journal: model, else /proc: variables",),
    every_s=RARELY_S,
    threshold=(
        f"for {STEPS_MIN} steps, all calls of the model with gradients are in evaluation mode, after some in training mode "
        "(likely) or from the start on (possible), and it has BatchNorm or dropout layers",
        f"or {PART_SHARE:.0%} of its dropout layers are, in parts that are trained, while the model itself is not (possible)",
        f"untracked, its variables show this for {HELD_HOLD_S:g} s (possible), or for {CHANGED_HOLD_S:g} s after it was in "
        "training mode (likely)",
    ),
    hides=("B13", "E07"),
    mechanism=(
        "In evaluation mode, dropout drops nothing, and BatchNorm normalizes with old statistics, which no longer follow the "
        "weights."
    ),
    signature="The model overfits, or its loss jumps after the first evaluation, and nothing fails.",
    look_alike="An evaluation with gradients between two epochs; BatchNorm layers alone that are frozen on purpose.",
    fix="Call model.train() at the beginning of each epoch.",
    judge=trains_in_evaluation_mode,
)
