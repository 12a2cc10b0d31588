"""What frameworks do by default: DataParallel by Hugging Face's Trainer (A09), one GPU in a notebook (A11), one GPU (A16)."""

from __future__ import annotations

from dataclasses import replace

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.evidence.visible import devices_behind
from gputop.doctor.facts import stated
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Confidence, Fact, Finding
from gputop.doctor.logs.patterns.table import pattern_of
from gputop.doctor.rules.launching import ranks
from gputop.doctor.rules.support.outputs import first_logged, quoted
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion
from gputop.frameworks import FRAMEWORKS
from gputop.snapshot import LogMatch

_TRAINER = "transformers.trainer"
"""A script that uses only models from transformers does not import this module, so its wrapper is its own."""


def _frameworks(group: RankGroup) -> set[str]:
    return {name for member in group.members for name in facts_of(member.journal).frameworks}


def trainer_data_parallel(evidence: Evidence, group: RankGroup) -> Judgement:
    """A09: Hugging Face's Trainer wrapped the model in nn.DataParallel because no launcher was used."""
    if len(group.members) != 1 or group.launcher is not None:
        return None
    member = group.members[0]
    fact = stated.data_parallel(member.journal)
    match = first_logged(evidence, group, "hf_n_gpu")
    wrapped = fact is not None and fact.devices > 1 and _TRAINER in _frameworks(group)
    moving = _moving(evidence, member)
    reported = wrapped or match is not None
    if not reported and (_TRAINER not in _frameworks(group) or len(moving) < 2 or stated.model_inspected(member.journal)):
        return None
    number = fact.devices if fact is not None else max(len(moving), len(group.used))
    devices = sorted((device for device in group.pool if device.uuid in group.used), key=lambda device: device.index)
    facts = []
    if fact is not None and wrapped:
        facts.append(
            Fact(f"the model runs in nn.DataParallel on {words.count(fact.devices, 'device')}", fact.devices, "journal")
        )
    if match is not None:
        facts.append(quoted(match))
    if _TRAINER in _frameworks(group):
        facts.append(Fact("transformers' Trainer is imported", _TRAINER, "journal"))
    if len(moving) > 1:
        text = f"backward runs on devices {units.ranges(moving)} of one process"
        facts.append(Fact(text, sorted(moving), "pt_autograd threads (/proc/<pid>/task)"))
    facts.append(Fact("one process, no launcher above it", group.pids, "/proc/<pid>/stat"))
    finding = Finding(
        id="A09",
        severity="warning",
        confidence="certain" if reported else "likely",
        title=f"The Trainer runs nn.DataParallel on {words.count(number, 'GPU')}: one process, slower than DDP",
        evidence=tuple(facts),
        cause="Without a launcher, Hugging Face's Trainer wraps the model in nn.DataParallel as soon as it sees several "
        "GPUs: one process drives them all, copies the weights in each step and gathers on GPU 0.",
        fix=f"{fixes.launch_line(group, number)}\n# the Trainer then uses DDP; or use one GPU: "
        f"{fixes.mask_prefix(group, devices[:1])}{fixes.own_command(group)}",
        refuted_by="The script wraps its model in nn.DataParallel itself, on purpose.",
        devices=tuple(device.uuid for device in devices),
        pids=group.pids,
        run=group.run_id,
    )
    return Suspicion(finding, 0.0 if reported else 10.0)


A09 = Rule(
    id="A09",
    order=1800,
    family="frameworks",
    title="The Trainer runs nn.DataParallel",
    severities=("warning",),
    confidences=("certain", "likely"),
    needs=("journal: DataParallel, frameworks", "the run's output", "pt_autograd threads"),
    window_s=10.0,
    threshold=(
        "one process without a launcher, transformers' Trainer, and nn.DataParallel or its log line (certain), or active "
        "backward threads for two devices for 10 s (likely)"
    ),
    hides=("A01", "B07", "B08", "E02"),
    mechanism=(
        "Without a launcher, Hugging Face's Trainer wraps the model in nn.DataParallel as soon as it sees several GPUs."
    ),
    signature="One process computes on all visible GPUs, and the first GPU holds the most memory.",
    look_alike="A script that wraps its model in nn.DataParallel itself.",
    fix="Start with torchrun, so that the Trainer uses DDP, or let it see only one GPU.",
    judge=trainer_data_parallel,
)


def _moving(evidence: Evidence, member: Member) -> set[int]:
    return set(evidence.history.backward_seconds(member.process)) if member.process is not None else set()


def notebook(evidence: Evidence, group: RankGroup) -> Judgement:
    """A11: a notebook trains on one GPU while others are free, because frameworks do not use more there by default."""
    if not ranks.is_notebook(group):
        return None
    judgement = ranks.lone_process(evidence, group)
    if isinstance(judgement, Abstained):
        return None if group.run is None else replace(judgement, rule="A11")
    if judgement is None:
        return None
    match = first_logged(evidence, group, "pl_notebook")
    names = [name for name, known in FRAMEWORKS.items() if known.one_gpu_in_notebooks and name in _frameworks(group)]
    number = len(judgement.finding.devices)
    facts = [Fact("the process is a notebook kernel (ipykernel)", True, "/proc/<pid>/cmdline")]
    if match is not None:
        facts.append(quoted(match))
    if names:
        facts.append(Fact(f"{' and '.join(names)} imported", names, "journal"))
    confidence: Confidence = "certain" if match is not None else "likely" if names else "possible"
    finding = replace(
        judgement.finding,
        id="A11",
        # One GPU may be intended in a notebook, but not if a framework reports that it holds back.
        severity="warning" if match is not None or names else "info",
        confidence=confidence,
        title=f"A notebook trains on one GPU of {number}",
        evidence=(*facts, *judgement.finding.evidence[2:]),
        cause="A notebook kernel is one process that no launcher started. Frameworks do not start ranks from it by "
        "default, because they cannot run the kernel again for each rank.",
        fix=_notebook_fix(names, number),
        refuted_by="One GPU is intended.",
    )
    return replace(judgement, finding=finding)


A11 = Rule(
    id="A11",
    order=1802,
    family="frameworks",
    title="A notebook trains on one GPU",
    severities=("warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=("/proc/<pid>/cmdline", "journal: frameworks", "NVML"),
    window_s=12.0,
    threshold=(
        "ipykernel on one busy GPU while others are free: certain by its log line, likely with a framework, otherwise possible"
    ),
    hides=("A01", "E02"),
    mechanism=("A notebook kernel is one process without a launcher. Frameworks do not start ranks from it by default."),
    signature="An ipykernel process keeps one GPU busy while others are free.",
    look_alike="A notebook intended for one GPU.",
    fix='Use notebook_launcher, strategy="ddp_notebook", or move the training to a script.',
    judge=notebook,
)


def _notebook_fix(names: list[str], number: int) -> str:
    if "lightning" in names:
        return f'trainer = Trainer(accelerator="gpu", devices={number}, strategy="ddp_notebook")'
    return (
        "from accelerate import notebook_launcher  # before any CUDA call in the notebook\n"
        f"notebook_launcher(train, args=(), num_processes={number})"
    )


def framework_default(evidence: Evidence, group: RankGroup) -> Judgement:
    """A16: a framework with its own launch command uses one GPU, or ignores CUDA_VISIBLE_DEVICES."""
    match = first_logged(evidence, group, "ds_cvd_ignored")
    if match is not None:
        mask = _mask_in(match, group)
        meant = {device.uuid for device in devices_behind(mask, group.pool)}
        # --include may name exactly the GPUs of the mask.
        return None if group.used and group.used <= meant else Suspicion(_mask_ignored(group, match, mask))
    name = None if ranks.is_notebook(group) else ranks.framework_of(group)
    if name is None:
        return None
    judgement = ranks.lone_process(evidence, group)
    if isinstance(judgement, Abstained):
        return replace(judgement, rule="A16")
    if judgement is None:
        return None
    title = FRAMEWORKS[name].title
    number = len(judgement.finding.devices)
    finding = replace(
        judgement.finding,
        id="A16",
        title=f"{title} trains on one GPU of {number}: its default",
        evidence=(Fact(f"the run uses {title}", name, "/proc/<pid>/cmdline, journal"), *judgement.finding.evidence),
        cause=f"{title} uses one GPU unless its own command names more; the number of GPUs in the machine does not matter.",
        fix=_framework_fix(name, group, [device.index for device in group.pool if device.uuid in judgement.finding.devices]),
    )
    return replace(judgement, finding=finding)


A16 = Rule(
    id="A16",
    order=1803,
    family="frameworks",
    title="A framework uses its default GPUs",
    severities=("warning",),
    confidences=("certain", "likely"),
    needs=("/proc/<pid>/cmdline", "journal: frameworks", "the run's output", "NVML"),
    window_s=12.0,
    threshold="the pattern of A01 in a framework with its own launch command, or DeepSpeed's log line",
    hides=("A01", "A02", "E02"),
    mechanism=(
        "Some frameworks use one GPU unless their own command names more, and DeepSpeed ignores CUDA_VISIBLE_DEVICES if "
        "--num_gpus or --include is given."
    ),
    signature=("The pattern of A01 in a run of Ultralytics or MMEngine, or DeepSpeed's log line that it ignores the mask."),
    look_alike="A01 (no framework with its own command); GPUs that DeepSpeed was meant to use.",
    fix="Use the framework's own option: device=0,1, tools/dist_train.sh, or deepspeed --include.",
    judge=framework_default,
)


def _framework_fix(name: str, group: RankGroup, indices: list[int]) -> str:
    process = group.main_process
    script = fixes.script_of(process.command if process is not None else None)
    if name == "ultralytics":
        listed = ",".join(map(str, indices))
        if script[0].rpartition("/")[2] == "yolo":
            rest = fixes.shell_join([item for item in script[1:] if not item.startswith("device=")])
            return f"yolo {rest} device={listed}"
        return f"model.train(..., device={indices})"
    config = next((item for item in script[1:] if not item.startswith("-")), "CONFIG.py")
    return f"bash tools/dist_train.sh {fixes.shell_join((config,))} {len(indices)}"


def _mask_in(match: LogMatch, group: RankGroup) -> str:
    """Return the mask that DeepSpeed reports to have ignored; it sets a different mask in its ranks' environment."""
    row = pattern_of(match.pattern, match.line)
    return row[1]["mask"] if row is not None and "mask" in row[1] else next(iter(group.masks), "0,1")


def _mask_ignored(group: RankGroup, match: LogMatch, mask: str) -> Finding:
    process = group.main_process
    script = fixes.shell_join(fixes.script_of(process.command if process is not None else None))
    return Finding(
        id="A16",
        severity="warning",
        confidence="certain",
        title=f"DeepSpeed ignores CUDA_VISIBLE_DEVICES={mask}",
        evidence=(quoted(match),),
        cause="With --num_gpus, --num_nodes or --include, DeepSpeed chooses the GPUs itself and ignores the mask.",
        fix=f"deepspeed --include localhost:{fixes.shell_word(mask)} {script}",
        refuted_by="DeepSpeed uses the intended GPUs.",
        devices=tuple(sorted(group.used)),
        pids=group.pids,
        run=group.run_id,
    )
