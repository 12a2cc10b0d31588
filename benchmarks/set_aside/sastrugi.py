"""Eight faults of researchers and students with plain torch, exported notebooks and torchrun, and five healthy programs.

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
    # ---- faults: numbers and learning, one process
    # A contrastive loss with a square root: its gradient is NaN as soon as a pair is twice the same image. Printed: the loss
    # falls, and then is nan for good.
    Program(_case("signature-pairs", ("J01", "nan_loss")), with_python("signature_pairs")),
    # ---- faults: data, time and memory, launching, one process
    # Each item decompresses the recording of a whole night for one second of it. py-spy: zipfile under __getitem__.
    Program(_case("frog-choruses", ("D01",)), with_python("frog_choruses")),
    # A notebook: the pictures of the generator are kept for an animation together with their graphs. top: memory grows
    # steadily.
    Program(_case("tapestry-dreams", ("H06", "E04"), acceptable=("H05",)), with_python("tapestry_dreams")),
    # A script for torchrun is started with python on two GPUs. Printed: "Not using distributed mode"; ps: one process.
    Program(_case("kite-photos", ("A01",), acceptable=("A02",)), with_python("kite_photos", "--batch-size", "32"), 2),
    # ---- faults: two ranks
    # The loader shuffles, and has no DistributedSampler: with one seed, both ranks see the same batches. Nothing of it is
    # printed.
    Program(_case("barley-leaves", ("C05",), outside_trace=False), with_torchrun("barley_leaves"), 2),
    # The loop is given the model and not its DDP wrapper, which is only used for the parameters. Nothing of it is printed.
    Program(_case("harbor-ships", ("C01",), outside_trace=False), with_torchrun("harbor_ships"), 2),
    # Rank 0 alone saves the best model, and save() ends with a barrier: rank 1 is in a backward of the next epoch. py-spy:
    # barrier in one, backward in the other.
    Program(_case("gravel-roads", ("C08",), acceptable=("G01",)), with_torchrun("gravel_roads"), 2, onset="last line"),
    # Rank 0 computes and writes histograms of all weights and gradients in each step, while rank 1 waits in a backward.
    # py-spy: histogram in one, backward in the other.
    Program(_case("sunspot-maps", ("F05",), acceptable=("F02", "F03")), with_torchrun("sunspot_maps"), 2),
    # ---- healthy: one process
    # Mixup, label smoothing and erasing: the training loss is far above that of the evaluation, and hardly falls later.
    Program(_case("healthy-tin-soldiers"), with_python("tin_soldiers")),
    # TD3: the losses of actor and critic grow with the values, and the return rises.
    Program(_case("healthy-clock-pendulum"), with_python("clock_pendulum")),
    # A language model that reads its text in order, by hand-written SGD with a learning rate of 20 that is annealed.
    Program(_case("healthy-old-diaries"), with_python("old_diaries")),
    # ---- healthy: two ranks
    # BYOL: a second network follows the trained one by an average, and is not wrapped.
    Program(_case("healthy-clay-tablets"), with_torchrun("clay_tablets"), 2),
    # An endless stream that each rank simulates with its own seed: no sampler, and no epochs.
    Program(_case("healthy-night-trains"), with_torchrun("night_trains"), 2),
)
