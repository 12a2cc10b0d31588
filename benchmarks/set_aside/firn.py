"""Eight faults of the kind that fill forums and support tickets, most with two ranks, and five healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. Frequent mistakes are frequent here. Each comment says
what goes wrong, and what would be seen of it from outside: by ps, top, py-spy and /proc, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")
_ENDED = ("exception", "LOG", "G04", "child_failed", "elastic_exit", "gloo_peer", "cpp_terminate")
"""What is said of a run that failed, without its cause."""

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: launching and devices
    # CUDA_VISIBLE_DEVICES=0 is left in the script from debugging, and the device is local_rank % device_count: two ranks on one
    # card. /proc/PID/environ of both ranks; nvidia-smi: both on card 0, and card 1 idles.
    Program(_case("mill-wheels", ("A07", "A03"), acceptable=("A02",)), ("bash", "mill_wheels.sh"), 2),
    # ---- faults: distributed training
    # A DistributedSampler that shuffles, and no set_epoch. Printed: the names of the files at each tenth step, which are the
    # same in each epoch. Not to be seen by ps, top or py-spy.
    Program(_case("organ-stops", ("C06",), acceptable=("J04",)), with_python("organ_stops"), 2),
    # The head for a task whose weight is 0 takes no part in the loss: "Expected to have finished reduction" in step 2.
    Program(
        _case("glass-recipes", ("C09",), acceptable=("exception", *_ENDED)), with_torchrun("glass_recipes"), 2, onset="end"
    ),
    # ---- faults: balance between ranks
    # Rank 0 alone corrects answers with a dictionary and counts edit distances, in Python, in each step. Stacks: edit_distance
    # on rank 0; rank 1 in backward.
    Program(_case("crossword-clues", ("F05",), acceptable=("F02", "F03")), with_torchrun("crossword_clues"), 2),
    # ---- faults: hangs
    # The old tutorial's default is two nodes, and only one is started: "process 0 of 4", "process 1 of 4", and then nothing.
    # Stacks: init_process_group on both.
    Program(
        _case("ferry-queues", ("G03",), acceptable=("G02", "G01", "G06")),
        with_python("ferry_queues", "-g", "2"),
        2,
        onset="last line",
    ),
    # ---- faults: one process
    # The AUROC of all calls so far is computed anew in each step. Printed: calls/s, which fall. Stacks: compute.
    Program(_case("scam-calls", ("E10",), acceptable=("E01", "H06")), with_python("scam_calls")),
    # The Trainer's collator makes spectrograms column by column, without workers. Stacks: spectrogram, most of the time.
    Program(_case("cricket-chirps", ("D01",)), with_python("cricket_chirps")),
    # Folders of pictures in the order of their classes, and no shuffle. Printed: a loss that jumps at each new class and falls
    # to nothing, and a validation accuracy of one in eight.
    Program(_case("seed-trays", ("J04",), acceptable=("J03", "J05")), with_python("seed_trays")),
    # ---- healthy: several processes
    # ZeRO-1: parameters are broadcast in each step, and rank 0 collects the state for a checkpoint now and then.
    Program(_case("healthy-freight-words"), with_torchrun("freight_words"), 2),
    # An ensemble: two processes that share no group, on purpose, with negative losses that jump up at each new bootstrap.
    Program(_case("healthy-peak-loads"), with_python("peak_loads", "--members", "2"), 2),
    # Batches by length, the same bucket on both ranks: steps take from a few to hundreds of milliseconds.
    Program(_case("healthy-folk-tunes"), with_torchrun("folk_tunes"), 2),
    # ---- healthy: one process
    # Adam, then L-BFGS with many evaluations in a step; the residual jumps up when the next load begins.
    Program(_case("healthy-beam-bending"), with_python("beam_bending")),
    # The trunk is frozen and stays in eval mode, on purpose: most of the time is a forward without gradients.
    Program(_case("healthy-tile-glazes"), with_python("tile_glazes")),
)
