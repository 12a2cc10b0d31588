"""The rules, one module per family of causes, and which finding hides which.

The order of ``FAMILIES`` is the order of roots: of findings that weigh the same, the earlier explains the later. Each
module has ``RULES`` (of a job), and may have ``MACHINE_RULES`` (of the machine) and ``HIDES``: root -> symptoms of the
same job, or of a machine-wide root in every job, that are not shown beside it (catalogue, section 3).
"""

from __future__ import annotations

from types import ModuleType

from gputop.doctor.rules.data_parallel import balance as dp_balance
from gputop.doctor.rules.data_parallel import batches as data_parallel
from gputop.doctor.rules.data_parallel import calls as dp_calls
from gputop.doctor.rules.ddp import data as ddp_data
from gputop.doctor.rules.ddp import gradients as ddp_gradients
from gputop.doctor.rules.ddp import model as ddp_model
from gputop.doctor.rules.launching import cpu_only, frameworks, mig, misplaced, placement, visibility
from gputop.doctor.rules.launching import ranks as launching
from gputop.doctor.rules.machine import clocks, hardware, memory, occupied
from gputop.doctor.rules.pace import cpu_share, efficiency, feeding, long_runs, settings, spread, stragglers
from gputop.doctor.rules.rule import Judgement, MachineRule, Rule, Suspicion
from gputop.doctor.rules.standstill import collectives, hangs, lost_ranks, spinning
from gputop.doctor.rules.texts import known as log_texts
from gputop.doctor.rules.texts import wrappers as wrapper_texts

FAMILIES: tuple[ModuleType, ...] = (
    hardware,
    visibility,
    mig,
    cpu_only,
    placement,
    misplaced,
    dp_calls,
    data_parallel,
    wrapper_texts,
    lost_ranks,
    log_texts,
    ddp_gradients,
    ddp_data,
    collectives,
    spinning,
    hangs,
    ddp_model,
    frameworks,
    launching,
    occupied,
    memory,
    clocks,
    cpu_share,
    feeding,
    stragglers,
    dp_balance,
    spread,
    long_runs,
    efficiency,
    settings,
)

RULES: tuple[Rule, ...] = tuple(rule for family in FAMILIES for rule in getattr(family, "RULES", ()))
MACHINE_RULES: tuple[MachineRule, ...] = tuple(rule for family in FAMILIES for rule in getattr(family, "MACHINE_RULES", ()))
IDS: tuple[str, ...] = (*(rule.id for rule in RULES), *(rule.id for rule in MACHINE_RULES))


def _hides() -> dict[str, frozenset[str]]:
    # On the CPU nothing else matters but what drove the training there.
    causes = {root for family in FAMILIES for root, symptoms in getattr(family, "HIDES", {}).items() if "A12" in symptoms}
    found: dict[str, frozenset[str]] = {"A12": frozenset(IDS) - {"A12"} - causes}
    for family in FAMILIES:
        for root, symptoms in getattr(family, "HIDES", {}).items():
            found[root] = found.get(root, frozenset()) | frozenset(symptoms)
    return found


HIDES: dict[str, frozenset[str]] = _hides()

__all__ = ["FAMILIES", "HIDES", "IDS", "MACHINE_RULES", "RULES", "Judgement", "MachineRule", "Rule", "Suspicion"]
