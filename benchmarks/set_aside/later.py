"""Programs of other kinds, set aside: training from scratch, RL, parallelism by hand, frameworks, shell wrappers."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # The decay of the learning rate is 1.02 a step instead of 0.98: the loss falls at first, and then is NaN.
    Program(_case("tiny-ddpm", ("J01", "J02", "nan_loss")), with_python("tiny_ddpm")),
    # The worker waits for a receipt of its checkpoint, which the server never sends: it waits for gradients.
    Program(_case("param-server", ("G01", "C08")), with_torchrun("param_server"), 2, onset="last line"),
    # The wrapper gives both ranks LOCAL_RANK=0: they share the first device, and the second is idle.
    Program(_case("char-lm-env", ("A07",), acceptable=("A02",)), ("bash", "char_lm_env.sh"), 2),
    # One worker deforms images in numpy, row by row. This takes six times as long as the small network, which waits for it.
    Program(_case("seg-augment", ("D01",)), with_python("seg_augment")),
    # Warm restarts: the learning rate jumps back up, with the loss already near the entropy of the text.
    Program(_case("healthy-restarts-lm"), with_python("restarts_lm")),
    # Cross-validation in a notebook's cells: each fold starts anew, so that the loss jumps back.
    Program(_case("healthy-kfold-cells"), with_python("kfold_cells")),
    # One card trains, and the other decodes each new checkpoint and then waits for the next.
    Program(_case("healthy-train-and-eval"), ("bash", "train_and_eval.sh"), 2),
    # DiLoCo: each rank trains alone for 60 steps, then applies the averaged change of the weights. It never averages gradients.
    Program(_case("healthy-local-sgd"), with_torchrun("local_sgd"), 2),
    # Evolution strategies: the ranks have no backward and no wrapper, and exchange rewards.
    Program(_case("healthy-es-two"), ("sh", "es_two.sh"), 2),
    # Three of four backwards run in no_sync, as they should when gradients are accumulated; then accuracy and a checkpoint.
    Program(_case("healthy-accumulate"), with_torchrun("accumulate"), 2),
    # Two loaders shuffle the inputs and the labels, each in its own order.
    Program(_case("two-loaders", ("J03",)), with_python("two_loaders")),
    # The warm-up of the learning rate has no end.
    Program(_case("odometry", ("J01", "J02", "nan_loss")), with_python("odometry", "odometry.yaml")),
    # Rank 0 validates for a moment, and rank 1 waits at a barrier.
    Program(_case("healthy-rank-zero-validates"), with_torchrun("rank_zero_validates"), 2),
    # One picture after the other, and no weights: L-BFGS changes the pixels.
    Program(_case("healthy-style-transfer"), with_python("style_transfer", "--size", "64")),
    # Each task begins at the same weights, so that its loss jumps up and falls.
    Program(_case("healthy-reptile"), with_python("reptile")),
)
