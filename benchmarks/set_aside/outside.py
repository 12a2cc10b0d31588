"""Programs whose fault, or whose health, can be seen from outside, set aside. Split at random with the seed 1612."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # Rank 1 receives the best weights, and rank 0 goes on with its training: nobody sends.
    Program(
        _case("sends-its-best", ("C08",), acceptable=("G01", "C07")), with_torchrun("sends_its_best"), 2, onset="last line"
    ),
    # A layer cut by columns and one by rows: the ranks hold different weights and need the same batches.
    Program(_case("healthy-columns-and-rows"), with_torchrun("columns_and_rows"), 2),
    # Different jobs on two cards, each of which takes its next one when its last one has ended.
    Program(_case("healthy-queue-of-jobs"), ("bash", "queue_of_jobs.sh"), 2),
    # Keras validates after each epoch, on half as many samples.
    Program(_case("healthy-keras-validates"), with_python("keras_validates")),
)
