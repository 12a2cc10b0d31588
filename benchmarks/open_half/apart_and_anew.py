"""Healthy programs, open half: ranks that train apart on purpose, and rounds that each begin anew. By the author of rules."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # Each rank has its own learning rate; now and then the loser takes over the winner's weights.
    Program(_case("healthy-exploit-explore"), with_torchrun("exploit_explore"), 2),
    # A search: torchrun only starts its configurations, which never communicate.
    Program(_case("healthy-widths-and-rates"), with_torchrun("widths_and_rates"), 2),
    # Each generation labels a pool, and trains a new student on it.
    Program(_case("healthy-noisy-student"), with_python("noisy_student")),
    # Each round goes on with one model, on the samples with the highest loss.
    Program(_case("healthy-hardest-first"), with_python("hardest_first")),
)
