"""Healthy programs that look like a fault, open half, by the author of rules: a guard, no measure."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # The error jumps with each stage of a curriculum, and falls again.
    Program(_case("healthy-harder-sums"), with_python("harder_sums")),
    # Steps stop because the training is done; then it serves.
    Program(_case("healthy-trains-then-serves"), with_python("trains_then_serves")),
    # A table's best model is saved in almost every epoch, which is one step.
    Program(_case("healthy-keeps-the-best"), with_python("keeps_the_best")),
    # Rank 0 reads for both, and has more to do.
    Program(_case("healthy-master-reads"), with_python("master_reads"), 2),
    # A few seconds of training, then a pause until more has arrived.
    Program(_case("healthy-night-shift"), with_python("night_shift")),
    # The rate jumps back to its start, and the loss with it.
    Program(_case("healthy-warm-restarts"), with_python("warm_restarts")),
)
