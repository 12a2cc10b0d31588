"""LOG: what ended a run or a launch, by a known error text in its output, unless another rule judges that text.

The finding has the id of its cause (C08, D08, G03 ...), or the text's own name if no rule has its cause. It outlives the run's
processes: a job whose ranks are all dead keeps its explanation for as long as gputop follows its output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.facts import model as model_facts
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.lines import is_warning
from gputop.doctor.logs.meaning.observed import UNKNOWN_ID, finding_of
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.patterns.pattern import HINT, Pattern
from gputop.doctor.logs.patterns.table import pattern_of
from gputop.doctor.rules.launching.exclusive import exclusive_mode
from gputop.doctor.rules.launching.misplaced import global_rank_as_device
from gputop.doctor.rules.machine.memory import host_memory
from gputop.doctor.rules.support.outputs import Output, at_most_likely, command_of, foreign_memory, outputs_of, soften
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.snapshot import LIVE_STATES, LogMatch, Run

JUDGED_ELSEWHERE = frozenset(
    {
        *("cuda_unknown_env", "local_rank_dash", "nvml_mismatch", "nvml_unknown"),
        *("ddp_devids_cpu", "ddp_not_needed", "dp_not_on_dev0", "dp_replica_error", "module_prefix", "two_devices"),
        *("ecc", "oom", "param_shape", "ready_twice", "sigkill", "unused_idx", "unused_params", "xid"),
    }
)
"""Texts whose cause has its own rule, which reads them from the logs."""
_UNLESS_EXPLAINED: Mapping[str, Callable[[Evidence], Mapping[str, Judgement]]] = {
    "worker_killed": host_memory,
    "killed": host_memory,
    "invalid_ordinal": global_rank_as_device,
    "devices_busy": exclusive_mode,
}
"""Texts with several causes, one of which has its own rule: they explain themselves if that rule does not apply."""
_REMARKS = frozenset(
    {
        *(
            "acc_p2p",
            "all_in_eval",
            "barrier_guess",
            "cache_flushes",
            "checkpoint_no_grad",
            "cpu_build",
            "dp_gather_scalar",
            "fup_useless",
            "loss_scale",
            "old_kernel",
            "no_accelerator",
            "pin_no_accel",
        ),
        *("pl_gpu_unused", "pl_no_gpu", "pl_workers", "rdzv_address", "rnn_flat", "tensor_cores", "too_many_workers"),
    }
)
"""Remarks that no other rule reads without a journal: they say the same of a live run as of its log, but are only possible.
What a launcher prints for every run (``omp1``) is left to the logs."""
_MISS_A_GPU = frozenset({"cpu_build", "no_accelerator", "pin_no_accel", "pl_no_gpu"})
"""Of these, those that mean nothing on a machine without a GPU, where a run uses virtual ones."""
_JUDGED_WHILE_ALIVE = frozenset({"coll_mismatch", "oom_other_proc"})


def failed(evidence: Evidence) -> dict[str, Judgement]:
    """LOG: the first failure in a run's output has a known text, or the run failed with an exception."""
    found: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        if output.survived:
            found |= _lasting(output)
            found |= _remarks(evidence, output)
            continue
        match = output.matches[0]
        if match.cascade or match.pattern in JUDGED_ELSEWHERE:
            continue
        if (output.group is not None and match.pattern in _JUDGED_WHILE_ALIVE) or _of_its_own(output, match):
            continue
        explains = _UNLESS_EXPLAINED.get(match.pattern)
        if explains is not None and not explains(evidence).keys().isdisjoint({output.subject, "machine"}):
            continue
        judgement = _judge(output, match)
        if judgement is not None:
            found[f"log:{output.subject}"] = judgement
    return found


LOG = Rule(
    id="LOG",
    order=1100,
    family="logs",
    title="A known error text ended the run",
    severities=("error", "warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=("logs",),
    every_s=EVERY_SNAPSHOT,
    threshold=(
        "the first failure in the output of a failed run has a known text, or is an exception",
        "the output of a live run says that the disk or the quota is full (possible), or that a checkpoint was not loaded "
        "(likely)",
        "the output of a live run contains a remark that is worth knowing (possible)",
    ),
    mechanism=(
        "Many failures have a fixed text. The first such text in a failed run's output is closest to the cause; those of "
        "other ranks follow from it."
    ),
    signature=(
        "The output of a failed run contains a known text, or its journal an exception. The finding has the id of its "
        "cause if there is one."
    ),
    look_alike="The same text in a run that continues or ends without an error.",
    fix="Follow the fix of the finding; `gputop doctor --log FILE` explains a log in the same way.",
    judge_machine=failed,
)


def _of_its_own(output: Output, match: LogMatch) -> bool:
    """Return whether the text blames memory that another rank of the same run holds: H02 judges that."""
    return match.pattern == "oom_other_proc" and foreign_memory(output) is None


def _lasting(output: Output) -> dict[str, Judgement]:
    """Judge a text that a live run survived, and that still holds: what it writes next fails, too."""
    for match in output.matches if _is_alive(output) else ():
        row = pattern_of(match.pattern, match.line)
        if row is not None and row[0].lasting:
            finding = _finding(output, match, row)
            # Such a remark ends no run: that this one continued does not refute it.
            as_it_is = row[0].kind == HINT and row[0].severity == "error"
            return {f"log:{output.subject}": Suspicion(finding if as_it_is else soften(output, finding))}
    return {}


def _remarks(evidence: Evidence, output: Output) -> dict[str, Judgement]:
    """Judge what is worth knowing in the output of a live run; the rules know more of one that has a journal."""
    found: dict[str, Judgement] = {}
    is_tracked = output.group is not None and output.group.run is not None
    is_virtual = evidence.snapshot is not None and evidence.snapshot.host.source == "virtual"
    told = _REMARKS - _MISS_A_GPU if is_virtual else _REMARKS
    for match in output.matches if _is_alive(output) and not is_tracked else ():
        row = pattern_of(match.pattern, match.line) if match.pattern in told else None
        if row is not None and row[0].kind == HINT:
            finding = replace(_finding(output, match, row), confidence="possible")
            severity = "warning" if finding.severity == "error" else finding.severity
            found.setdefault(f"log:{output.subject}:{match.pattern}", Suspicion(replace(finding, severity=severity)))
    return found


def _is_alive(output: Output) -> bool:
    return output.group is not None or (output.run is not None and output.run.state in LIVE_STATES)


def _judge(output: Output, match: LogMatch) -> Judgement:
    row = pattern_of(match.pattern, match.line)
    if row is None and match.pattern != UNKNOWN_ID:
        return None
    if row is not None and (row[0].kind == HINT or is_warning(match.line)):
        return None
    return Suspicion(at_most_likely(output, _finding(output, match, row)))


def _finding(output: Output, match: LogMatch, row: tuple[Pattern, Mapping[str, str]] | None) -> Finding:
    rank = output.rank(match.rank)
    failure = model_facts.failure(rank) if rank is not None else None
    seen = Observation(
        match.line,
        match.file or "the run's output",
        match.line_number or 0,
        match.rank,
        match.time,
        row[0] if row is not None else None,
        row[1] if row is not None else {},
        where=failure.where if failure is not None else match.where,
        followed=match.followed,
    )
    in_a_log = row is not None or output.run is None or match.line_number is not None
    finding = finding_of(seen) if in_a_log or output.run is None else _unknown(output, output.run, seen)
    if seen.where is not None:
        source = "journal" if failure is not None else "traceback"
        finding = replace(finding, evidence=(*finding.evidence, Fact(f"at {seen.where}", seen.where, source)))
    return replace(finding, run=output.run_id or match.run_id, devices=output.devices, pids=output.pids)


def _unknown(output: Output, run: Run, seen: Observation) -> Finding:
    """Return the finding for an exception that only the journal contains: there is no log to read."""
    finding = finding_of(seen)
    name, _, _ = seen.line.partition(":")
    who = f"{run.name}: rank {seen.rank}" if len(run.ranks) > 1 else run.name
    at = f" at {seen.where}" if seen.where is not None else ""
    read = f"# read {seen.where}, and the output before the error\n" if seen.where is not None else ""
    title = f"{who} failed with {name.rpartition('.')[2]}{at}"
    return replace(
        finding, title=title, evidence=(Fact(seen.line, seen.line, "journal: error"),), fix=f"{read}{command_of(output)}"
    )
