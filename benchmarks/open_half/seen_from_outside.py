"""Faults that only their stacks or their words show from outside, open half, by the author of rules: a guard, no measure."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- a return that falls, in other words
    # A tutorial's words: "Episode 100  Average Score: 1.36". What should be maximized is minimized.
    Program(_case("sinks-by-its-score", ("J06",), acceptable=("J03", "J02")), with_python("sinks_by_its_score")),
    # In tables, under ep_rew_mean. The advantage is the wrong way round.
    Program(_case("a2c-in-tables", ("J06",), acceptable=("J03", "J02")), with_python("a2c_in_tables")),
    # ---- gradients one by one
    Program(_case("averages-by-parameter", ("E11",)), with_torchrun("averages_by_parameter"), 2),
    Program(_case("gradients-one-at-a-time", ("E11",)), with_python("gradients_one_at_a_time"), 2),
    # ---- long stalls at regular intervals
    # Each two hundred iterations, a sample of four thousand characters.
    Program(_case("tells-a-story", ("E07",), acceptable=("D01",)), with_python("tells_a_story")),
    # ---- the same code, with more to do
    # Rank 1 has the site with the long calls.
    Program(
        _case("long-calls-on-one-rank", ("F03", "F02"), acceptable=("F05", "F01")), with_torchrun("long_calls_on_one_rank"), 2
    ),
)
