"""Programs that show each kind of fault that a user meets, open half, by the author of rules: a guard, no measure."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- what the run prints
    # The meters of the ImageNet example: most of the time is data.
    Program(_case("imagenet-times", ("D01",)), with_python("imagenet_times")),
    # An integer division keeps the rate at 0.
    Program(_case("warm-integer", ("J03",)), with_python("warm_integer")),
    # The square root of a negative variance, in a progress bar.
    Program(_case("tqdm-nan", ("J01", "nan_loss"), acceptable=("J02",)), with_python("tqdm_nan")),
    # The rate grows by 12 % an epoch.
    Program(_case("table-explodes", ("J02", "J01", "nan_loss")), with_python("table_explodes")),
    # The whole history is written in each step.
    Program(_case("rewrites-history", ("E10",), acceptable=("E07",)), with_python("rewrites_history")),
    # Graphs of all steps are kept by a running sum.
    Program(_case("graphs-add-up", ("H06", "E04", "E10"), acceptable=("H05",)), with_python("graphs_add_up")),
    # Validation in batches of 8, on sixty thousand rows.
    Program(_case("validates-each-time", ("E07", "B13")), with_python("validates_each_time")),
    # A key that is not in the table, in one of two spawned ranks.
    Program(
        _case("spawn-keyerror", ("exception",), "KeyError", acceptable=("G04", "LOG")),
        with_python("spawn_keyerror"),
        2,
        onset="end",
    ),
    # ---- what stands still
    # The dashboard no longer answers, and the loop waits for it without a limit.
    Program(_case("posts-metrics", ("G01",)), with_python("posts_metrics"), onset="last line"),
    # The producer has ended, and the loop waits for its next batch.
    Program(_case("queue-of-dead", ("G01",), acceptable=("D01", "G04")), with_python("queue_of_dead"), onset="last line"),
    # One rank skips a sample, and with it an all_reduce.
    Program(_case("skips-empty", ("C08", "G01"), acceptable=("C07",)), with_torchrun("skips_empty"), 2, onset="last line"),
    # Both stages receive first.
    Program(_case("both-receive", ("G01", "C08")), with_torchrun("both_receive"), 2, onset="last line"),
    # Nobody starts the second rank.
    Program(_case("one-of-two", ("G03", "G06"), acceptable=("G01",)), ("bash", "one_of_two.sh")),
    # A rank is stopped by a signal.
    Program(
        _case("pauses-a-rank", ("G01",), "stopped|suspended|SIGCONT", acceptable=("G01", "C08", "G04")),
        with_torchrun("pauses_a_rank"),
        2,
        onset="last line",
    ),
    # ---- what waits for one rank
    Program(_case("rank-zero-draws", ("F05",), acceptable=("F02", "F03", "F01", "F04")), with_torchrun("rank_zero_draws"), 2),
    Program(_case("far-share", ("F01",), acceptable=("D01",)), with_torchrun("far_share"), 2),
    Program(_case("longest-last", ("F03", "F02"), acceptable=("F01", "F05")), with_python("longest_last"), 2),
    # ---- what waits for data
    Program(_case("pool-prepares", ("D01",)), with_python("pool_prepares")),
    Program(_case("asks-the-bucket", ("D01",), acceptable=("D07",)), with_python("asks_the_bucket")),
    Program(_case("saves-every-step", ("E07", "D01"), acceptable=("E10",)), with_python("saves_every_step")),
)
