"""The rules, in packages by what they are about: launching, nn.DataParallel, DDP, standstill, pace, machine, and known texts.

The folder is the registry: a ``Rule`` that stands in one of its modules is one of ``RULES``.
"""

from __future__ import annotations

import sys

from gputop.doctor.rules import registry
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion

RULES = registry.rules_of(registry.modules(sys.modules[__name__]))
"""Every rule, in the order of roots: of findings that weigh the same, the earlier explains the later."""
JOB_RULES = tuple(rule for rule in RULES if rule.subject == "job")
MACHINE_RULES = tuple(rule for rule in RULES if rule.subject == "machine")
IDS = tuple(rule.id for rule in RULES)
BY_ID = {rule.id: rule for rule in RULES}
HIDES = registry.hides(RULES)
"""Root -> symptoms of the same job or device, or, for a root of the machine, of every job, that are not shown beside it."""

__all__ = ["BY_ID", "HIDES", "IDS", "JOB_RULES", "MACHINE_RULES", "RULES", "Judgement", "Rule", "Suspicion"]
