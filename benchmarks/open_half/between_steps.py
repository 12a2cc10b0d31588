"""Programs that do other work between their steps, open half, by the author of rules: a guard, no measure."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- pauses that come seldom and last
    # Checkpoints are copied three times, each quarter of a minute.
    Program(_case("backs-up-by-the-clock", ("E07",)), with_python("backs_up_by_the_clock")),
    # Another program is asked before each epoch, and takes its time.
    Program(_case("asks-the-quota-tool", ("E07",), acceptable=("D01",)), with_python("asks_the_quota_tool")),
    # Samples go to a service that answers slowly.
    Program(_case("sends-its-pictures", ("E07",), acceptable=("D01",)), with_python("sends_its_pictures")),
    # ---- in each step
    # The score of all predictions so far, in plain Python.
    Program(_case("confuses-all-so-far", ("E10", "D01", "E07")), with_python("confuses_all_so_far")),
    # Garbage is collected in a large heap after each batch.
    Program(_case("sweeps-after-each-batch", ("E07", "E04"), r"gc\.collect", ("D01",)), with_python("sweeps_after_each_batch")),
    # ---- on one rank
    # Rank 0 computes an edit distance in each step.
    Program(_case("spells-out-on-rank-zero", ("F05",), acceptable=("F02", "F01")), with_torchrun("spells_out_on_rank_zero"), 2),
    # Rank 0 writes JSON while the others wait in a barrier.
    Program(_case("exports-on-rank-zero", ("F05", "E07"), acceptable=("F02",)), with_torchrun("exports_on_rank_zero"), 2),
    # ---- healthy programs that look like trouble
    Program(_case("healthy-reports-in-passing"), with_python("reports_in_passing")),
    Program(_case("healthy-reports-on-rank-zero"), with_torchrun("reports_on_rank_zero"), 2),
)
