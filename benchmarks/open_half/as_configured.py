"""Programs with one wrong setting or line, as people report them in forums, and their healthy twins. By the author of rules."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- what it learns
    # Gradients are clipped to a norm of 0.00001: the printed loss stays.
    Program(_case("clips-to-nothing", ("J03",)), with_python("clips_to_nothing")),
    # model.train() is called once, model.eval() in each epoch: what is printed shows only that it overfits.
    Program(_case("stays-in-eval", ("J07",), outside_trace=False), with_python("stays_in_eval")),
    # zero_grad is missing.
    Program(_case("never-zeroes", ("J02", "J01")), with_python("never_zeroes")),
    # The loss is a sum, and the rate is that of a mean.
    Program(_case("sums-its-loss", ("J01", "J02")), with_python("sums_its_loss")),
    # ---- memory and time
    # Predictions of each validation are kept with their graphs.
    Program(_case("validates-with-graph", ("E04", "H06"), acceptable=("E10",)), with_python("validates_with_graph")),
    # Workers start again for each short epoch, and each builds an index first.
    Program(_case("index-in-each-worker", ("D06",), acceptable=("D01", "E07")), with_python("index_in_each_worker")),
    # One rank gets batches of 40, the other of 8.
    Program(_case("forty-and-eight", ("F03",), acceptable=("F02", "F05")), with_torchrun("forty_and_eight"), 2),
    # The process that trains computes the features, or merges byte pairs. On virtual GPUs, only stacks show it from outside.
    Program(_case("mel-on-the-fly", ("D01",)), with_python("mel_on_the_fly")),
    Program(_case("bpe-between-batches", ("D01",)), with_python("bpe_between_batches")),
    # ---- healthy programs that look like them
    Program(_case("healthy-clips-hard"), with_python("clips_hard")),
    # BatchNorm layers alone stay in evaluation mode.
    Program(_case("healthy-trunk-in-eval"), with_python("trunk_in_eval")),
    Program(_case("healthy-quick-workers"), with_python("quick_workers")),
    Program(_case("healthy-eight-at-a-time"), with_python("eight_at_a_time")),
    # A main thread without loader workers that trains all the time.
    Program(_case("healthy-computes-all-the-time"), with_python("computes_all_the_time")),
)
