"""The check that the kits of all tests share: the facts in a journal fit the schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gputop.facts.record import problems
from gputop.facts.table import Facts

_NAMES = {key.name for key in Facts.keys.values()}


def wrong_facts(facts: Mapping[str, Any], own: Collection[str] = ()) -> list[str]:
    """Return which of a rank's facts the schema does not allow; ``own`` are names of the script's own facts."""
    names = {name: name.partition("/")[0] if name.startswith("optimizer/") else name for name in facts}
    unknown = [f"{name}: not in the schema" for name in facts if names[name] not in _NAMES and name not in own]
    return unknown + [line for name, value in facts.items() for line in problems(Facts, {names[name]: value})]


def assert_facts(facts: Mapping[str, Any], own: Collection[str] = ()) -> None:
    """Assert that a rank's facts fit the schema."""
    wrong = wrong_facts(facts, own)
    assert not wrong, "facts that gputop/facts does not know:\n" + "\n".join(wrong)
