"""The rules, one module per family of causes, and which finding hides which.

The order of ``RULES`` is the order of roots: of findings that weigh the same, the earlier explains the later.
"""

from gputop.doctor.rules import cpu_only, data_parallel, launching, memory, placement
from gputop.doctor.rules.rule import Judgement, Rule, Suspicion

RULES: tuple[Rule, ...] = (
    *cpu_only.RULES,
    *placement.RULES,
    *data_parallel.RULES,
    *launching.RULES,
    *memory.RULES,
)

HIDES: dict[str, frozenset[str]] = {
    "A12": frozenset(rule.id for rule in RULES if rule.id != "A12"),
    "A07": frozenset({"A01", "A02", "H01"}),
    "B01": frozenset({"A01", "A02"}),
    "B02": frozenset({"A01", "A02"}),
    "B05": frozenset({"A01", "A02"}),
    "A01": frozenset({"A02"}),
}
"""Root -> symptoms of the same job that are not shown beside it (catalogue, section 3)."""

__all__ = ["HIDES", "RULES", "Judgement", "Rule", "Suspicion"]
