"""Small programs, set aside. Split at random with the seed 2611."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # Gradients are cleared between the backward pass and the step: nothing is learned.
    Program(_case("clears-too-late", ("J03",)), with_python("clears_too_late", "--epochs", "4000")),
)
