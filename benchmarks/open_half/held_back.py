"""Programs that wait for one another, or fail at once, open half, by the author of rules: a guard, no measure."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- output
    # Each fold prints into a pipe that is read once both have ended.
    Program(_case("fits-both-folds", ("G01",), acceptable=("LOG",)), with_python("fits_both_folds"), onset="last line"),
    # The same, read as it comes.
    Program(_case("healthy-reads-its-folds"), with_python("reads_its_folds")),
    # ---- locks of files
    # The broadcast is inside the lock.
    Program(
        _case("indexes-under-a-lock", ("G01",), acceptable=("C08", "G02", "G03")),
        with_torchrun("indexes_under_a_lock"),
        2,
        onset="last line",
    ),
    # One rank after the other takes the lock, and then all train.
    Program(_case("healthy-loads-in-turns"), with_torchrun("loads_in_turns"), 2),
    # The workers are copies of a process of which a thread holds the lock, and which has that thread no longer.
    Program(
        _case("worker-takes-no-tile", ("G01",), acceptable=("D01", "D04")),
        with_python("worker_takes_no_tile"),
        onset="last line",
    ),
    # ---- ranks that never come
    Program(_case("alone-of-two", ("G03",), acceptable=("G01", "G02")), ("bash", "alone_of_two.sh"), 2, onset="last line"),
    # ---- several runs, one card
    # No mask, and cuda:0 in both.
    Program(
        _case("three-learning-rates", ("H03", "A07"), acceptable=("A01", "A02", "A03", "A16", "A18")),
        ("bash", "three_learning_rates.sh"),
        2,
    ),
    # ---- switches
    # Every step of both networks is inside detect_anomaly().
    Program(_case("vocoder-with-anomalies", ("E05",)), with_python("vocoder_with_anomalies")),
    # ---- ends within seconds
    Program(
        _case("mpirun-cannot-read", (ANY,), r"scans_2019|no such file", ("exception", "LOG", "mpi_exit")),
        ("sh", "mpirun_cannot_read.sh"),
        2,
        onset="end",
    ),
    Program(
        _case("needs-its-tokenizer", (ANY,), r"vocab\.json|no such file", ("exception", "LOG")),
        with_python("needs_its_tokenizer"),
        onset="end",
    ),
)
