"""Twelve faults of everyday trainings in plain torch, as people ask about them in forums, and six healthy ones that look odd.

Their author knew only the ids and titles of the rules, and no verdict. Frequent mistakes are frequent here, and two thirds of
the programs have one process. Each comment says what goes wrong, and what would be seen of it from outside: by ps, top, py-spy
and /proc, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: input, numbers and learning, one process
    # Each photo is unpacked and augmented at full size in the main process (num_workers=0), which takes most of each step. top:
    # one process and no workers. py-spy: most samples under __getitem__, few in the model.
    Program(_case("alley-cats", ("D01",)), with_python("alley_cats")),
    # A cross-entropy by hand takes log(1 - p), and p becomes exactly 1 in float32: 0 * -inf. Printed: the loss falls, then it
    # is nan.
    Program(_case("kidney-slices", ("J01", "nan_loss")), with_python("kidney_slices")),
    # The training spectrograms are normalised and those of the validation are not. Printed: the training's loss falls to 0.4
    # and its accuracy is 0.9, while the validation stays at chance and its loss rises from 55 to over 100.
    Program(_case("barks-and-growls", ("J05",)), with_python("barks_and_growls")),
    # The last batch of an epoch has 30 reviews, and the hidden state is for 50. Printed: the loss, then a traceback with
    # "Expected hidden[0] size (2, 30, 160), got [2, 50, 160]".
    Program(
        _case("diner-reviews", ("exception", "shapes"), "hidden", acceptable=("LOG",)),
        with_python("diner_reviews"),
        onset="end",
    ),
    # ---- faults: memory, time and checkpoints, one process
    # The images and reconstructions of each step are kept in a list: the append stands in the inner loop. top: memory grows by
    # 6 to 12 MB/s, to less than 3 GB.
    Program(_case("brooches", ("H06",), acceptable=("E04", "H05")), with_python("brooches")),
    # A replay memory without a limit, all of which is stacked into tensors in each step. Printed: an episode of 100 steps takes
    # longer and longer, by the elapsed time. py-spy: torch.stack in learn(), ever more of it.
    Program(_case("balloon-pilot", ("E10",)), with_python("balloon_pilot")),
    # Every 50 steps, or about 9 s, the checkpoint is written and zipped to the "drive", which takes about 4 s. Printed: the
    # elapsed time jumps after each 50 steps. py-spy: zlib in make_archive. /proc: two files are written again and again.
    Program(_case("folklore-gpt", ("E07",)), with_python("folklore_gpt")),
    # ---- faults: two ranks or two GPUs
    # A script for torchrun that was started with python: "Not using distributed mode", and a world size of 1. ps: one process,
    # no launcher, no RANK in its environment; the second GPU is idle.
    Program(_case("fox-tracks", ("A01",), acceptable=("A02",)), with_python("fox_tracks"), 2),
    # The loader of each rank has shuffle=True and no DistributedSampler, so that each reads all the leaves in each epoch.
    # Nothing of it is printed but the number of batches.
    Program(_case("apple-scab", ("C05",), outside_trace=False), with_torchrun("apple_scab"), 2),
    # Each rank compares the error on its own validation data with its own best, and the barrier is in that branch: one rank is
    # in the barrier, and the other in a forward or backward of the next epoch. py-spy: two different collectives.
    Program(
        _case("highway-sensors", ("C08",), acceptable=("G01",)),
        with_python("highway_sensors"),
        2,
        onset="last line",
    ),
    # Rank 0 alone evaluates after each epoch, for about as long as an epoch trains, and rank 1 waits in a barrier.
    # py-spy: evaluate() in one and barrier in the other. Printed: the time between the last batch and the IoU.
    Program(_case("carpet-defects", ("F05", "B13"), acceptable=("E07", "F02", "F03")), with_torchrun("carpet_defects"), 2),
    # ---- healthy: one process
    # The noise prediction loss of a diffusion model: low after one epoch, then noisy and nearly flat, as it should be.
    Program(_case("healthy-fog-diffusion"), with_python("fog_diffusion")),
    # PPO: a policy loss around 0 with both signs, a falling entropy, and a return that rises and then stays.
    Program(_case("healthy-boat-docking"), with_python("boat_docking")),
    # Mixup, smoothed labels, erased patches and dropout: the training's loss is far above the validation's, and hardly falls.
    Program(_case("healthy-fruit-stand"), with_python("fruit_stand")),
    # One batch is memorised on purpose, down to a loss near 0; then a new network begins at 3.3 with all the data.
    Program(_case("healthy-braille-cells"), with_python("braille_cells")),
    # ---- healthy: two ranks
    # Eight micro-batches in no_sync and one all-reduce per step, as it should be, and all-reduces of the printed means.
    Program(_case("healthy-epic-poems"), with_torchrun("epic_poems"), 2),
    # Masked pretraining, then a classifier on the frozen encoder in a second DDP: the loss becomes another one.
    Program(_case("healthy-engine-hum"), with_python("engine_hum"), 2),
)
