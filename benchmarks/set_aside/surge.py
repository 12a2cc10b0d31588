"""Twelve faults of everyday trainings that people ask about most, and six healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. They are trainings of students, researchers and
hobbyists in plain torch, some of them notebooks exported to scripts; two thirds have one process. Each comment says what goes
wrong, and what would be seen of it from outside: by ps, top, py-spy and /proc, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: numbers and learning, one process
    # The training's transform scales and normalizes the pictures, the validation has none. Printed: train_acc near 1, val_acc
    # at chance, and a val_loss in the thousands.
    Program(_case("weld-seams", ("J05",)), with_python("weld_seams")),
    # A cross-entropy written by hand: once a probability is exactly 1, it computes 0 * log(0). The printed loss falls as it
    # should for some hundred steps, and is nan from then on.
    Program(_case("lake-outlines", ("J01", "nan_loss")), with_python("lake_outlines")),
    # ---- faults: data, time and memory, one process
    # The validation runs without no_grad, and its loss is kept for a plot, with the graph of each pass. top: memory grows by
    # the same amount in each epoch.
    Program(_case("door-chimes", ("H06",), acceptable=("E04", "H05")), with_python("door_chimes")),
    # __getitem__ parses a csv with genfromtxt, in the process that trains. py-spy: most of the time is in __getitem__.
    Program(_case("ski-boots", ("D01",)), with_python("ski_boots")),
    # Two workers that are spawned, not forked, begin anew in each epoch, which is shorter than their start. ps: new workers
    # every few seconds; py-spy: the loop is in the loader's __iter__ or waits for its first batch.
    Program(_case("hand-gestures", ("D06",), acceptable=("D01", "E07")), with_python("hand_gestures")),
    # Prioritized replay by lists over the whole memory, which has no end. The printed times of equally long episodes grow;
    # py-spy: more and more of the time is in sample.
    Program(_case("coffee-robot", ("E10",), acceptable=("D01",)), with_python("coffee_robot")),
    # Every 60 steps, 300 steps of sampling make a picture, which takes about as long as the training between. Printed: a pause
    # after each sixth line; py-spy: sample.
    Program(_case("cat-doodles", ("E07",)), with_python("cat_doodles")),
    # ---- faults: two GPUs or two ranks
    # A DDP script is started by python, so it is the only rank of its group. Printed: "world size: 1"; ps: one process.
    Program(_case("crop-rows", ("A01",), acceptable=("A02",)), with_python("crop_rows"), 2),
    # An auxiliary head leaves the loss after four epochs, and its parameters have no gradient from then on. Torch says so in
    # the error that ends the program.
    Program(_case("license-plates", ("C09",), acceptable=("exception",)), with_torchrun("license_plates"), 2, onset="end"),
    # Rank 0 stops early and waits in a barrier, while the other, which is not told, is in a backward of the next epoch.
    # Printed: "early stopping", and nothing after it; py-spy: barrier in one rank, backward in the other.
    Program(
        _case("rent-index", ("C08",), acceptable=("C07", "G01", "G04")),
        with_torchrun("rent_index"),
        2,
        onset="last line",
    ),
    # No DistributedSampler, and one seed for all: both ranks train on the same batches of the whole data. Nothing of it is
    # printed.
    Program(_case("penguin-tracks", ("C05",), outside_trace=False), with_python("penguin_tracks"), 2),
    # ---- healthy: one process
    # Advantage actor-critic: its loss changes its sign and stays near 0, as it may, while the return rises.
    Program(_case("healthy-maze-runner"), with_python("maze_runner")),
    # A graph network trains on one batch, the whole graph, for one seed after the other: each starts anew at a high loss.
    Program(_case("healthy-paper-network"), with_python("paper_network")),
    # The weight of the divergence is annealed from 0 to 1, so the total loss rises for minutes, by design.
    Program(_case("healthy-drum-loops"), with_python("drum_loops")),
    # A small language model reaches the entropy of the grammar behind its text in a few hundred steps, and stays there.
    Program(_case("healthy-fairy-tales"), with_python("fairy_tales")),
    # ---- healthy: two ranks
    # Accumulation by no_sync, as it should be: the ranks exchange gradients in each fourth batch only.
    Program(_case("healthy-bird-boxes"), with_torchrun("bird_boxes"), 2),
    # Each rank drops layers of its own choice in each step, with find_unused_parameters, so their times and gradients differ.
    Program(_case("healthy-radio-words"), with_python("radio_words"), 2),
)
