"""Find the rules: every ``Rule`` in a package's modules, so that none can be left out."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from types import ModuleType

from gputop.doctor.rules.support.rule import EVERYTHING, Rule


def modules(package: ModuleType) -> tuple[ModuleType, ...]:
    """Import and return every module below a package."""
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return tuple(importlib.import_module(item.name) for item in found)


def rules_of(found: Iterable[ModuleType]) -> tuple[Rule, ...]:
    """Return the rules of these modules in root order.

    Raises:
        ValueError: two rules have the same id or the same ``order``, or a rule hides one that does not exist.
    """
    # A rule that one module imports from another is the same object.
    objects = {id(value): value for module in found for value in vars(module).values() if isinstance(value, Rule)}
    rules = tuple(sorted(objects.values(), key=lambda rule: (rule.order, rule.id)))
    for name in ("id", "order"):
        values = [getattr(rule, name) for rule in rules]
        twice = sorted({str(value) for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"Several rules have the {name} {', '.join(twice)}.")
    known = {rule.id for rule in rules}
    for rule in rules:
        unknown = set(rule.hides) - known - set(EVERYTHING)
        if unknown:
            raise ValueError(f"Rule {rule.id} hides rules that do not exist: {', '.join(sorted(unknown))}.")
    return rules


def hides(rules: Iterable[Rule]) -> Mapping[str, frozenset[str]]:
    """Return the ids that each rule can hide, by its id. A rule that hides everything does not hide the rules that hide it."""
    named = {rule.id: rule.hides for rule in rules}
    found = {}
    for root, symptoms in named.items():
        if symptoms == EVERYTHING:
            causes = {other for other, hidden in named.items() if root in hidden}
            found[root] = frozenset(named) - {root} - causes
        elif symptoms:
            found[root] = frozenset(symptoms)
    return found
