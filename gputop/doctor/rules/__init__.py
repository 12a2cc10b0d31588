"""The rules, in packages by topic: launching, nn.DataParallel, DDP, standstill, pace, machine, hosts, learning and known texts.

The folder is the registry: ``RULES`` contains every ``Rule`` in its modules.
"""

from __future__ import annotations

import sys

from gputop.doctor.rules import registry
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion

RULES = registry.rules_of(registry.modules(sys.modules[__name__]))
"""Every rule, in root order: of two findings with equal weight, the earlier one explains the later one."""
GROUP_RULES = tuple(rule for rule in RULES if rule.subject == "group")
MACHINE_RULES = tuple(rule for rule in RULES if rule.subject == "machine")
IDS = tuple(rule.id for rule in RULES)
BY_ID = {rule.id: rule for rule in RULES}
HIDES = registry.hides(RULES)
"""Root cause -> symptoms that it hides in the same group or on the same device; for one of the machine, in every group."""

__all__ = ["BY_ID", "GROUP_RULES", "HIDES", "IDS", "MACHINE_RULES", "RULES", "Judgement", "Rule", "Suspicion"]
