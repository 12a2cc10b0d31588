"""Programs that stop in the middle of their training, or rest on purpose, open half, by the author of rules: a guard."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- a main thread that waits for ever
    # The thread that keeps samples dies of an AttributeError; the queue fills, and each put times out and is tried again.
    Program(_case("fills-its-writer", ("G01", "exception"), "queue|AttributeError"), with_python("fills_its_writer")),
    # Each shard's first batch keeps its slot, until the prefetching thread and the loop wait for each other.
    Program(_case("prefetcher-loses-a-slot", ("G01",), "queue|thread"), with_python("prefetcher_loses_a_slot")),
    # An early return leaves a lock taken.
    Program(_case("locks-its-meter-twice", ("G01",), "lock"), with_python("locks_its_meter_twice")),
    # ---- that rest on purpose
    Program(_case("healthy-fine-tunes-on-request"), with_python("fine_tunes_on_request")),
    Program(_case("healthy-waits-for-the-lab"), with_python("waits_for_the_lab")),
    Program(_case("healthy-keeps-its-summary-open"), with_python("keeps_its_summary_open")),
)
