"""Faults of every family and healthy work that looks odd, set aside: their author knew only the titles of the rules.

Each comment names the cause, and what somebody with ps, top, py-spy and the printed output would see of it. What leaves no such
trace has ``outside_trace=False``. Some faults belong to no title: any finding that says the cause is right.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")
_ENDED = ("exception", "LOG", "G04", "child_failed", "elastic_exit", "gloo_peer", "cpp_terminate")
"""What is said of a run that failed, without its cause."""

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: launching and devices
    # The wrapper reads the number of ranks from a config that was written on a laptop: 1. The second card idles.
    Program(
        _case("config-from-the-laptop", ("A02",), acceptable=("A01", "A03", "A11", "A16")),
        ("bash", "config_from_the_laptop.sh"),
        2,
    ),
    # ---- faults: communication
    # LoRA is added to the model inside DDP, which does not know the new parameters. The loss falls; nothing shows it.
    Program(
        _case("adapters-after-the-wrap", ("C02",), acceptable=("C01", "C03"), outside_trace=False),
        with_torchrun("adapters_after_the_wrap"),
        2,
    ),
    # ---- faults: stragglers
    # Every second shard is compressed, and all of these are rank 1's. Stacks: rank 1 in bz2, rank 0 in its backward.
    Program(
        _case("half-is-compressed", ("F01",), acceptable=("D01", "F02", "F03", "F05")),
        with_torchrun("half_is_compressed"),
        2,
    ),
    # ---- faults: data
    # Each sample is a query that reads the whole table. Stacks: sqlite3 in __getitem__.
    Program(_case("rows-without-an-index", ("D01",), acceptable=("D07",)), with_python("rows_without_an_index")),
    # ---- faults: checkpoints
    # Both ranks write and rename one temporary file: the second rename fails.
    Program(_case("renames-it-twice", ("C14",), acceptable=_ENDED), with_python("renames_it_twice"), 2, onset="end"),
    # ---- faults: memory and limits
    # A row of each output is kept, and with it the whole output. Memory of the process: 1.2 MB more in each step.
    Program(
        _case("bank-of-negatives", ("H06", "E04"), acceptable=("E10", "H05")),
        with_python("bank_of_negatives"),
    ),
    # Targets from workers are collected, and each holds a file descriptor, of which the shell allows 256.
    Program(
        _case("all-predictions-at-once", ("fd_limit", ANY), r"open files|file descriptor|ancdata|ulimit", _ENDED),
        ("bash", "all_predictions_at_once.sh"),
        onset="end",
    ),
    # ---- faults: numbers and learning
    # The logarithm of a negative rate: Keras prints a loss of nan for each epoch.
    Program(_case("keras-counts", ("J01", "nan_loss")), with_python("keras_counts")),
    # ---- faults: hangs
    # ---- faults: crashes
    # A token was added to the tokenizer, and not to the model. The exception says only that an index is out of range.
    Program(
        _case("speakers-as-tokens", ("exception", ANY), r"out of range|vocab|embedding", _ENDED),
        with_torchrun("speakers_as_tokens"),
        2,
        onset="end",
    ),
    # ---- faults: environment
    # "timeout 40" was left over from a test. The launcher says that it got SIGTERM.
    Program(
        _case("overnight", ("stopped", "time_limit", ANY), r"SIGTERM|timeout|from outside|signal 15", (*_ENDED, "killed")),
        ("bash", "overnight.sh"),
        2,
        onset="end",
    ),
    # Priorities are summed in Python over the whole buffer, which grows: frames per second fall, and are printed.
    Program(_case("picks-what-surprises", ("E10",), acceptable=("D01", "E02")), with_python("picks_what_surprises")),
    # ---- healthy: learning that looks bad
    # A loss is maximized on purpose, and the output says so.
    Program(_case("healthy-forgets-on-request"), with_python("forgets_on_request")),
    # The rate jumps up every 150 steps, and the loss with it. Lightning.
    Program(_case("healthy-lit-restarts"), with_python("lit_restarts")),
    # ---- healthy: uneven on purpose
    # Ranks train with different rates and batches, and average their weights after each phase; the faster one waits.
    Program(_case("healthy-soup-of-two"), with_python("soup_of_two"), 2),
    # Batches are filled by edges: the number of graphs differs between ranks and steps.
    Program(_case("healthy-batches-by-edges"), with_torchrun("batches_by_edges"), 2),
    # Rank 0 draws samples every 120 steps, and the other waits at a barrier.
    Program(_case("healthy-rings-by-diffusion"), with_torchrun("rings_by_diffusion"), 2),
    # One card trains, and the other evaluates each new checkpoint and sleeps in between.
    Program(_case("healthy-trains-beside-its-judge"), ("bash", "trains_beside_its_judge.sh"), 2),
    # The evaluation takes longer than the epoch, as is announced.
    Program(_case("healthy-ranks-the-catalogue"), with_python("ranks_the_catalogue")),
    # ---- healthy: jobs that come and go, or wait
    # Folds end by early stopping, at different times.
    Program(_case("healthy-folds-stop-early"), with_python("folds_stop_early"), 2),
    # A server without a single request.
    Program(_case("healthy-waits-for-requests"), with_python("waits_for_requests")),
    # Inference on the CPU, on purpose.
    Program(_case("healthy-translates-overnight"), ("bash", "translates_overnight.sh")),
)
