"""Debugging switches left on: in the environment, in torch, or as the run prints it (E05)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from gputop.command_line import script_words
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.ddp import divides_models
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.outputs import first_logged, fix_of, quoted
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion

_OFF = ("", "0", "false", "off", "no")


@dataclass(frozen=True, slots=True)
class Switch:
    """One variable: the values at which it matters, whether it slows every run down, and its effect."""

    name: str
    matters: Callable[[str], bool]
    slows: bool
    effect: str


def _on(value: str) -> bool:
    return value.strip().lower() not in _OFF


SWITCHES = (
    Switch("CUDA_LAUNCH_BLOCKING", _on, True, "the CPU waits for every kernel"),
    Switch("PYTORCH_NO_CUDA_MEMORY_CACHING", _on, True, "the driver allocates every tensor"),
    Switch(
        "TORCH_DISTRIBUTED_DEBUG", lambda value: value.strip().upper() == "DETAIL", True, "torch checks every collective first"
    ),
    Switch("TORCH_NCCL_BLOCKING_WAIT", _on, True, "the CPU waits for every collective"),
    Switch("NCCL_BLOCKING_WAIT", _on, True, "the CPU waits for every collective"),
    Switch("NCCL_DEBUG", lambda value: value.strip().upper() == "TRACE", True, "NCCL writes a line for every call"),
    Switch("NVIDIA_TF32_OVERRIDE", lambda value: value.strip() == "0", False, "TF32 is off in all libraries"),
    Switch("TORCH_COMPILE_DISABLE", _on, False, "torch.compile does nothing"),
    Switch("TORCHDYNAMO_DISABLE", _on, False, "torch.compile does nothing"),
    Switch(
        "CUDA_DEVICE_MAX_CONNECTIONS", lambda value: value.strip() == "1", False, "kernels of several streams run in one queue"
    ),
    Switch("NCCL_P2P_DISABLE", _on, False, "GPUs exchange data through host memory"),
    Switch("NCCL_SHM_DISABLE", _on, False, "processes exchange data through the network"),
    Switch("NCCL_IB_DISABLE", _on, False, "machines exchange data without InfiniBand"),
)
"""``slows``: a debugging switch that slows every run. The other switches may be intentional (docs/rules.md#e05)."""
_TRACERS = frozenset(
    ("cProfile", "profile", "trace", "pdb", "coverage", "kernprof", "line_profiler", "memory_profiler", "viztracer")
)
"""What Python calls for each line or function of the script that it runs. Others only look now and then."""
_OF_COLLECTIVES = ("TORCH_DISTRIBUTED", "TORCH_NCCL", "NCCL_")


def left_on(evidence: Evidence, group: RankGroup) -> Judgement:
    """E05: switches that slow every run down or disable something are on."""
    match = first_logged(evidence, group, "anomaly_mode") if not tracked.ranks_of(group) else None
    # Only what trains turns anomaly detection on, whether or not its lines show a known metric.
    if match is None and not evidence.trains(group):
        return None
    found = _in_environment(group)
    inside = _in_torch(group)
    tracers = _above(group)
    if not found and not inside and not tracers and match is None:
        return None
    slows = any(switch.slows for switch, _ in found) or any(severe for _, _, severe in inside)
    slows = slows or bool(tracers) or match is not None
    facts = [Fact(f"{switch.name}={value}: {switch.effect}", value, "/proc/<pid>/environ") for switch, value in found]
    facts += [Fact(text, True, "journal: settings") for text, _, _ in inside]
    facts += [Fact(f"{name} runs the script: Python calls it again and again", name, "/proc/<pid>/cmdline") for name in tracers]
    facts += [quoted(match)] if match is not None else []
    names = [switch.name for switch, _ in found] + [fix.partition("(")[0].rpartition(".")[2] for _, fix, _ in inside]
    lines = []
    if found:
        lines.append(f"unset {' '.join(dict.fromkeys(switch.name for switch, _ in found))}; {fixes.own_command(group)}")
    lines += [fix for _, fix, _ in inside]
    names += tracers
    lines += [f"# start the script without {name}" for name in tracers]
    if match is not None:
        names.append("anomaly detection")
        lines += filter(None, [fix_of(match)])
    finding = tracked.about(
        group,
        "E05",
        "warning" if slows else "info",
        # Determinism is usually requested on purpose. What is printed may hold for some steps only.
        "likely" if match is not None and not found and not tracers else "certain" if found or slows else "possible",
        f"Left on from debugging: {', '.join(names[:2])}{f' and {len(names) - 2} more' if len(names) > 2 else ''}"
        if slows
        else f"Switched off or limited: {', '.join(names[:3])}",
        facts,
        "Such switches help to find an error, but they slow down every run after that."
        if slows
        else "These are workarounds: right if the hardware or the result needs them, otherwise a loss of speed.",
        "\n".join(lines),
        "The switch is needed on this machine.",
    )
    return Suspicion(finding)


E05 = Rule(
    id="E05",
    order=3000,
    family="settings",
    title="Debug switches are on",
    severities=("warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=("environment at launch (/proc/<pid>/environ)", "/proc/<pid>/cmdline", "journal: settings", "the run's output"),
    threshold=(
        "a variable or torch switch made for debugging, or a function that Python calls for each line or call (warning), or a "
        "switch that disables a fast path (info)",
        "a command line that runs the script under a debugger, a profiler or coverage (warning)",
        "without a journal: torch or Lightning prints that anomaly detection is on (likely)",
    ),
    mechanism=(
        "Switches such as CUDA_LAUNCH_BLOCKING help to find an error, but slow down every run after that. Others are "
        "workarounds that disable a fast path."
    ),
    signature="Such a variable is in the environment at launch, or such a switch is on in torch, which may print it.",
    look_alike="A workaround that this machine needs; determinism that the user wants.",
    fix="Unset the variables, and turn the switches off in the script.",
    judge=left_on,
)


def _in_environment(group: RankGroup) -> list[tuple[Switch, str]]:
    values: dict[str, str] = {}
    for member in group.members:
        environment = member.process.environment if member.process is not None else None
        values.update(environment.settings if environment is not None else ())
    ranks = tracked.ranks_of(group)
    found = []
    for switch in SWITCHES:
        value = values.get(switch.name)
        if value is None or not switch.matters(value):
            continue
        if switch.name.startswith(_OF_COLLECTIVES) and len(group.members) < 2:
            continue
        if switch.name == "CUDA_DEVICE_MAX_CONNECTIONS" and (
            divides_models(ranks) or any("megatron" in facts_of(rank).frameworks for rank in ranks)
        ):
            # Megatron needs it to order the communication and computation of tensor parallelism.
            continue
        found.append((switch, fixes.shell_join((value,))))
    return found


def _above(group: RankGroup) -> list[str]:
    """Return the names of the debuggers, profilers and the like that run the script, by their command lines."""
    words = (script_words(process.command) for process in group.processes)
    programs = (item[1] if item[0] == "-m" and len(item) > 1 else PurePath(item[0]).name for item in words if item)
    return sorted(_TRACERS.intersection(programs))


def _in_torch(group: RankGroup) -> list[tuple[str, str, bool]]:
    """Return the switches that are on in torch: a sentence, the line that turns it off, and whether it is for debugging."""
    for rank in tracked.ranks_of(group):
        fact = facts_of(rank).settings
        if fact is None:
            continue
        found = []
        if fact.anomaly_detection:
            text = "anomaly detection is on: every forward pass records its stack"
            found.append((text, "torch.autograd.set_detect_anomaly(False)", True))
        if fact.profiler:
            text = "a profiler is on in the training loop"
            found.append(
                (text, "profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=3))  # a few steps only", True)
            )
        if fact.tracer and not _above(group):
            text = f"Python calls {fact.tracer} for each line"
            found.append((text, "sys.settrace(None)  # or start the script without its debugger or coverage", True))
        if fact.call_profiler and not fact.profiler and not _above(group):
            text = f"Python calls {fact.call_profiler} for each call of a function"
            found.append((text, "sys.setprofile(None)  # or start the script without its profiler", True))
        if fact.deterministic:
            text = "deterministic algorithms are on: torch chooses slower kernels"
            found.append((text, "torch.use_deterministic_algorithms(False)  # and cudnn.deterministic = False", False))
        if found:
            return found
    return []
