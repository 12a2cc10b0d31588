"""Why a profile is not taken: what is unknown, what is in the way, or why its cost could not be bounded.

Reads attributes and one stack; imports nothing and waits for nothing.
"""

from __future__ import annotations

import gc
import math
import os
import sys
from statistics import median
from types import FrameType
from typing import Any

from gputop.tracking.standing.reporter import Trainer

KNOWN_STEPS = 5
"""A step's time is known from this many steps on."""
STEP_MIN_S = 0.01
"""The profiler takes some 10 ms to start the first time, whatever the steps do (torch 2.13): one of these steps, or three on
two busy cores."""
STEP_MAX_S = 5.0
"""A recording is held in memory until it is written: some 200 MB in the worst case for a step of this length."""
LONGEST_STEPS = 5.0
"""A profile may make no step longer than this many steps."""
_COMPILERS = (os.path.join("torch", "_dynamo", "convert_frame.py"), os.path.join("torch", "_inductor", "compile_fx.py"))
_OTHERS = ("NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH")
"""Environment variables of Nsight and other tools that subscribe to the driver, which allows one subscriber."""


def step_s(trainer: Trainer | None) -> float | None:
    """Return the usual time of a step; None while it is not known."""
    times = trainer.recent_steps_s() if trainer is not None else []
    return median(times) if len(times) >= KNOWN_STEPS else None


def profilers() -> tuple[Any, Any] | None:
    """Return torch.profiler and torch.autograd.profiler; None if torch is not there, or without them."""
    found: tuple[Any, Any] = sys.modules.get("torch.profiler"), sys.modules.get("torch.autograd.profiler")
    return found if all(found) else None


def obstacle(trainer: Trainer | None) -> str | None:
    """Return why no profile can be taken now, as a sentence; None if nothing is in the way."""
    if trainer is None or trainer.last_step()[0] is None:
        return "No step has ended yet, or gputop does not see the steps: only automatic tracking knows when one ends."
    usual = step_s(trainer)
    if usual is None:
        return f"Too few steps have ended to know how long one takes: {KNOWN_STEPS} are needed."
    if usual < STEP_MIN_S:
        return f"A step takes {1000 * usual:.1f} ms: a profile could make one more than {LONGEST_STEPS:g} times as long."
    if usual > STEP_MAX_S:
        return f"A step takes {usual:.0f} s: what a profile records in more than {STEP_MAX_S:g} s may not fit into memory."
    return _in_the_way(trainer)


def too_long(over_s: float, usual_s: float, remembered_s: float) -> str | None:
    """Return why no profile is taken after one that made a step ``over_s`` seconds longer than usual; None if one may be.

    ``remembered_s``: for how many more seconds that counts.
    """
    if over_s <= (LONGEST_STEPS - 1) * usual_s or remembered_s <= 0:
        return None
    times = 1 + over_s / usual_s
    return (
        f"A profile of this run has made a step {times:.1f} times as long as usual; {LONGEST_STEPS:g} times is the limit. "
        f"Ask again in {math.ceil(remembered_s / 60)} min."
    )


def _in_the_way(trainer: Trainer) -> str | None:
    found = profilers()
    if found is None:
        return "The training's torch has no torch.profiler."
    profile, scripted = getattr(found[0], "profile", None), _scripted()
    # Found by their class: a list of all objects would keep the training's tensors alive. 40 ms for a million objects.
    objects = [each for each in gc.get_referrers(profile, *scripted) if type(each) in (profile, *scripted)]
    if getattr(found[1], "_is_profiler_enabled", False) or any(type(each) is profile and _is_warm(each) for each in objects):
        return "The training itself is using torch's profiler, and two cannot run at the same time."
    other = next((name for name in _OTHERS if os.environ.get(name)), None)
    if other is not None:
        return f"Another profiler watches the training ({other} is set), and two cannot run at the same time."
    if sys.gettrace() is not None or _monitored():
        return "A Python profiler or debugger is active in the training: its times would be wrong, and so would ours."
    if compiles(trainer.trains_on()):
        return "torch.compile is at work: ask again when the steps have their usual length."
    if any(type(each) is not profile and _is_long(each) for each in objects):
        return (
            "The training uses TorchScript, whose operators torch takes long to collect: a profile could make a step more than "
            f"{LONGEST_STEPS:g} times as long."
        )
    return None


def _scripted() -> list[Any]:
    """Return the classes of what TorchScript runs: modules, scripted or traced, and functions."""
    jit = sys.modules.get("torch.jit")
    found = [getattr(jit, name, None) for name in ("RecursiveScriptModule", "TopLevelTracedModule", "ScriptFunction")]
    return [kind for kind in found if isinstance(kind, type)]


def _is_long(scripted: Any) -> bool:
    """Return whether TorchScript runs many operators in one call of this: a module, or a function with a loop.

    Libraries have small functions without one, such as activations.
    """
    graph = getattr(scripted, "graph", None) if type(scripted).__name__ == "ScriptFunction" else None
    return graph is None or graph.findNode("prim::Loop") is not None


def _is_warm(profile: Any) -> bool:
    """Return whether a profiler of the script is warming up: torch has prepared it, and shows it nowhere else."""
    if getattr(getattr(profile, "current_action", None), "name", "") != "WARMUP":
        return False
    prepared = getattr(profile, "profiler", None)
    return prepared is not None and getattr(prepared, "kineto_results", None) is None  # it has results once it has been stopped


def _monitored() -> bool:
    """Return whether a profiler has registered with Python, as cProfile does from 3.12 on."""
    monitoring: Any = getattr(sys, "monitoring", None)
    return monitoring is not None and any(
        monitoring.get_tool(tool) for tool in (monitoring.DEBUGGER_ID, monitoring.PROFILER_ID)
    )


def inside_backward(frame: FrameType | None) -> bool:
    """Return whether autograd calls this frame: torch then gives the thread another state, and takes it back afterwards."""
    while frame is not None:
        if frame.f_code.co_name == "_engine_run_backward":
            return True
        frame = frame.f_back
    return False


def compiles(thread: int) -> bool:
    """Return whether torch.compile is at work on a thread."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_COMPILERS):
            return True
        frame = frame.f_back
    return False
