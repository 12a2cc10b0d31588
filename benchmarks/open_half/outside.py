"""Programs whose fault, or whose health, can be seen from outside, open half. Split at random with the seed 1612."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # The round robin always names rank 0, so that rank 1 waits for its first shard for ever.
    Program(
        _case("ring-of-jobs", (ANY,), "rank 1|one rank|only one|idle|unequal", acceptable=("G01", "G04", "A02", "C07")),
        with_torchrun("ring_of_jobs"),
        2,
    ),
    # Rank 1 comes to the end of its rows, and rank 0 waits for its file.
    Program(_case("by-files", ("G04", "exception"), acceptable=("LOG", "G01")), ("sh", "by_files.sh"), 2, onset="last line"),
    # The main process computes distances between all weights in each step.
    Program(_case("draws-histograms", ("F05", "F02", "F03"), acceptable=("F01", "F04")), with_torchrun("draws_histograms"), 2),
    # LOCAL_RANK is 0 for both ranks.
    Program(_case("slurm-like", ("A07",), acceptable=("A02",)), ("bash", "slurm_like.sh"), 2),
    # The corpus has no end marks, so that rank 0's sample after the first epoch does not end, and rank 1 waits for it.
    Program(
        _case("samples-until-eos", ("B13", "E07", "G01", "F05"), acceptable=("C08", "F03")),
        with_torchrun("samples_until_eos"),
        2,
        onset="last line",
    ),
    # The cells of a notebook, with the pauses of one who looks at plots.
    Program(_case("healthy-runs-cells"), with_python("runs_cells", "cells.ipynb")),
    # A parameter server has little to do, and its worker much: that is its design.
    Program(_case("healthy-holds-the-weights"), with_torchrun("holds_the_weights"), 2),
    # A replay buffer grows until it is full, and then no more.
    Program(_case("healthy-fills-its-replay"), with_python("fills_its_replay")),
    # Formerly set aside.
    # The settings say two GPUs; nobody starts a second process.
    Program(_case("one-card-of-the-box", ("A01", "A02")), with_python("one_card_of_the_box"), 2),
    # One worker cuts tiles out of slides, 12 ms each, for a small network.
    Program(_case("lit-slides", ("D01",), acceptable=("D07",)), with_python("lit_slides", "--workers", "1")),
    # The loop holds the lock and waits for room in the queue, which only a thread that waits for the lock can make.
    Program(_case("writer-and-trainer", ("G01",)), with_python("writer_and_trainer"), onset="last line"),
    # All inputs of the past are kept.
    Program(_case("never-forgets", ("H06", "E04"), acceptable=("H05", "E10")), with_python("never_forgets")),
    # Site 1 has five times as many patients: in each round of federated averaging, site 0 waits for it.
    Program(_case("fed-hospitals", ("F03", "F02"), acceptable=("F05",)), with_torchrun("fed_hospitals"), 2),
    # The replay buffer has no limit: memory grows by about 0.2 MB in each step of the environment.
    Program(_case("dqn-pixels", ("H06", "E04"), acceptable=("H05", "E10")), with_python("dqn_pixels")),
    # Each rank decides on its own when to stop: rank 1 stops early and leaves, and rank 0 goes on.
    Program(
        _case("churn-early-stop", ("G04", "C07"), acceptable=("exception", "LOG", "C08", "G01")),
        with_torchrun("churn_early_stop"),
        2,
        onset="end",
    ),
    # The loss comes from a method of model.module, so that DDP's forward never runs, and no gradient is averaged.
    Program(_case("simclr-lite", ("C01",), acceptable=("C03",), outside_trace=False), with_torchrun("simclr_lite"), 2),
)
