"""The sets of names that a stream has logged: each gets a schema, a number that its records carry, and a plan."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.losses import are_automatic
from gputop.tracking.journal import format as form
from gputop.tracking.journal.notice import warn
from gputop.tracking.journal.writing.stream import Plan, Stream

Part = tuple[tuple[str, ...], Plan]


class Schemas(Stream):
    """A stream that knows its sets of names."""

    _known: frozenset[str] | None = None
    """All names, once there are too many sets of them. Rare, so no attribute of each journal: Python stores 30 compactly."""
    _schemas = 0
    _automatic_schemas = 0

    def named(self) -> list[tuple[str, ...]]:
        """Return the sets of names that have been logged so far."""
        return list(self._plans)

    @property
    def sets_of_names(self) -> int:
        """How many sets of names have been logged so far."""
        return len(self._plans)

    def _parts(self, names: tuple[str, ...], now: int) -> Iterator[Part]:
        """Yield the records that a call's names need: one, or several for many or long names. Must run in a turn.

        Once there are too many sets of names, known names are still recorded, one by one; new ones are dropped and reported.
        """
        for start in range(0, len(names), form.NAMES_PER_RECORD):
            yield from self._fitting(names[start : start + form.NAMES_PER_RECORD], now)

    def _fitting(self, names: tuple[str, ...], now: int) -> Iterator[Part]:
        plan = self._plans.get(names)
        if plan is None and len(names) > 1 and not form.names_fit(names):
            middle = len(names) // 2
            yield from self._fitting(names[:middle], now)
            yield from self._fitting(names[middle:], now)
            return
        if plan is None and self._schemas < form.SCHEMAS - form.SCHEMAS_OF_ONE:
            plan = self._new_plan(names, now)
        if plan is not None:
            yield names, plan
            return
        for name in names:
            single = self._plan_of_one(name, now)
            if single is not None:
                yield (name,), single

    def _plan_of_one(self, name: str, now: int) -> Plan | None:
        plan = self._plans.get((name,))
        if plan is not None:
            return plan
        sets = form.SCHEMAS - form.SCHEMAS_OF_ONE
        warn(f"more than {sets} different sets of metric names: new names are not logged any more. Log fixed names.")
        if self._known is None:
            self._known = frozenset(name for names in self._plans for name in names)
        if name in self._known and self._schemas < form.SCHEMAS:
            return self._new_plan((name,), now)
        self.set_word(form.W_DROPPED, self.words[form.W_DROPPED] + 1)
        return None

    def _new_plan(self, names: tuple[str, ...], now: int) -> Plan:
        automatic = self._automatic_schemas < form.AUTOMATIC_SCHEMAS and are_automatic(names)
        schema = form.AUTOMATIC_SCHEMAS_FROM + self._automatic_schemas if automatic else self._schemas
        line = form.names_of(names)
        self._put(form.pack_json(form.SCHEMA, schema, self._step, now, line))
        if automatic:
            self._automatic_schemas += 1
        else:
            self._schemas += 1
        self._note({"schema": schema, "names": line})
        word = form.scalars_word(schema, len(names))
        plan = self._plans[names] = (word, word >> 32)
        return plan
