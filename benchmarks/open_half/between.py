"""Programs that lose their time between the phases of a step, or more of it with each step, open half, by the author of rules.

A guard, no measure.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- features between the batch and the forward
    Program(_case("specs-in-the-loop", ("D01",)), with_python("specs_in_the_loop")),
    Program(_case("tokenizes-each-batch", ("D01",)), with_python("tokenizes_each_batch")),
    # The loss itself takes the time: it is training.
    Program(_case("healthy-soft-dtw"), with_python("soft_dtw_loss")),
    # ---- graphs that are kept
    Program(_case("smooths-for-the-bar", ("H06", "E04"), acceptable=("E10", "H05")), with_python("smooths_for_the_bar")),
    # Each backward goes through all earlier chunks, too.
    Program(_case("carries-its-state", ("E10",), acceptable=("H06", "E04")), with_python("carries_its_state")),
    # A buffer with a limit, which is not reached while the program is watched.
    Program(_case("healthy-fills-its-buffer"), with_python("fills_its_buffer")),
    # ---- metrics in plain Python
    Program(_case("wer-on-the-way", ("D01", "E07")), with_python("wer_on_the_way")),
    # The longer it trains, the longer each takes.
    Program(_case("auc-so-far", ("E10", "E07"), acceptable=("D01",)), with_python("auc_so_far")),
    # A beam search in plain Python, for each line of the validation set.
    Program(_case("words-after-each-epoch", ("E07",), acceptable=("B13",)), with_python("words_after_each_epoch")),
    Program(_case("healthy-counts-on-the-way"), with_python("counts_on_the_way")),
    # ---- one of two ranks
    # It takes longer and longer, so that the run does.
    Program(_case("logs-all-on-one", ("F05", "F02", "E10"), acceptable=("F04",)), with_torchrun("logs_all_on_one"), 2),
    Program(_case("bleu-on-rank-zero", ("F05",), acceptable=("F02", "D01")), with_torchrun("bleu_on_rank_zero"), 2),
    Program(_case("healthy-both-grow-longer"), with_torchrun("both_grow_longer"), 2),
    # ---- what piles up
    Program(_case("hooks-every-epoch", ("E10",)), with_python("hooks_every_epoch")),
    Program(_case("nearest-in-the-bank", ("E10",), acceptable=("D01",)), with_python("nearest_in_the_bank")),
    Program(_case("healthy-hooks-once"), with_python("hooks_once")),
)
