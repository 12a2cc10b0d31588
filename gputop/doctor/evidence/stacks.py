"""Interpret the stack of a rank that completes no step: it waits for others, pauses on purpose, or compiles. Pure.

Stacks come from the fact ``stalled`` (docs/facts.md): "file.py:12 function", innermost first.
"""

from __future__ import annotations

import re

from gputop.doctor.facts.stated import facts_of
from gputop.facts.standing import Stalled, Standing
from gputop.snapshot import Rank

COLLECTIVE_FILES = re.compile(
    r"^(distributed_c10d|_functional_collectives|distributed|_runtime_utils|_state_dict_utils|_unshard_param_utils|"
    r"state_dict|fully_sharded_data_parallel|_fsdp\w*|monitored_barrier)\.py\b"
)
_COLLECTIVE_NAMES = re.compile(
    r"\b(all_reduce|all_gather\w*|reduce_scatter\w*|broadcast\w*|barrier|monitored_barrier|gather\w*|all_to_all\w*|"
    r"_sync_buffers|_pre_forward|state_dict)$"
)
_COMPILER = re.compile(
    r"^(convert_frame|symbolic_convert|output_graph|compile_fx|async_compile|triton_heuristics|select_algorithm)\.py\b"
)
_COMPILED_CODE_RUNS = re.compile(r"^(compile_fx|triton_heuristics)\.py:\d+ run$")
"""Frames of the compiler's files that are on the stack while compiled code runs."""
_DEBUGGER = re.compile(r"^(pdb|bdb|ipdb|pudb|debugger|pydevd\w*)\.py\b")
_PAUSES = ("evaluation", "checkpoint")
_PAUSING = re.compile(
    r" (evaluat\w*|validat\w*|valid|val|eval|eval_\w+|test|test_(epoch|loop|step|model)|predict\w*|generate\w*|infer\w*|"
    r"save\w*|write_checkpoint|upload\w*|push_to_hub)$"
)
_EXCHANGE = re.compile(r"^distributed_c10d\.py:\d+ (send|recv)$")
_OWN_CODE = re.compile(
    r"^(?!distributed|_functional|module\.py|tensor\.py|__init__|graph\.py|_tensor|c10d|contextlib)[\w-]+\.py:\d+ "
)
_KERNEL_RUNS_A_CELL = re.compile(r" (run_code|run_ast_nodes|run_cell)$")


def communicates(stall: Stalled) -> bool:
    """Return whether a rank waits for the others: in backward, where gradients are reduced, or in a collective operation."""
    return stall.phase == "backward" or any(
        COLLECTIVE_FILES.search(frame) or _COLLECTIVE_NAMES.search(frame) for frame in stall.stack
    )


def own_line(stall: Stalled) -> str | None:
    """Return the innermost line of the user's own code; None if no line shown is."""
    return next((frame for frame in stall.stack if _OWN_CODE.search(frame) and not COLLECTIVE_FILES.search(frame)), None)


def exchange_of(stall: Stalled) -> str | None:
    """Return "send" or "recv" if a rank waits in that call for one other rank; None elsewhere."""
    found = (_EXCHANGE.search(frame) for frame in stall.stack)
    return next((match[1] for match in found if match is not None), None)


def pauses(stall: Stalled | Standing) -> bool:
    """Return whether a rank evaluates or writes a checkpoint, by its phase or by a function name on its stack."""
    return stall.phase in _PAUSES or any(_PAUSING.search(frame) for frame in stall.stack)


def compiles(stall: Stalled | Standing) -> bool:
    """Return whether torch.compile is at work: a model's first calls, or those with new shapes, take minutes."""
    return any(_COMPILER.search(frame) and not _COMPILED_CODE_RUNS.search(frame) for frame in stall.stack)


def in_debugger(stall: Stalled) -> bool:
    """Return whether a debugger waits at its prompt: a ``breakpoint()`` was left in the code."""
    return any(_DEBUGGER.search(frame) for frame in stall.stack)


def rests(rank: Rank | None, stall: Stalled) -> bool:
    """Return whether none of the script's code runs: a notebook between two cells, an interpreter at its prompt."""
    if stall.phase not in (None, "other"):
        return False
    kernel = "ipykernel" in facts_of(rank).frameworks or any(
        frame.startswith(("kernelapp.py", "ipkernel.py")) for frame in stall.stack
    )
    return not stall.stack or (kernel and not any(_KERNEL_RUNS_A_CELL.search(frame) for frame in stall.stack))
