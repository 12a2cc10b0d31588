"""Twelve faults as they are met on shared servers and in research groups, and six healthy programs that look odd.

Their author knew the ids and titles of the rules and the subjects of three commits, and no verdict. Frequent mistakes are
frequent here, and two thirds of the programs have one process. Each comment says what goes wrong, and what would be seen of it
from outside: by ps, top, py-spy, /proc and nvidia-smi, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: input, one process
    # Recordings are resampled, given an echo and analysed in __getitem__ with no workers: 85 % of each step. py-spy: in the
    # fetch of the loader nearly always. Nothing of it is printed.
    Program(_case("kitchen-sounds", ("D01",)), with_python("kitchen_sounds")),
    # Two loaders with two spawned workers each, not persistent, and few images: an epoch is mostly the start of workers. ps:
    # new workers every few seconds, all of which import torch. Nothing of it is printed.
    Program(_case("tooth-xrays", ("D06",), acceptable=("D01",)), with_python("tooth_xrays")),
    # ---- faults: learning, one process
    # Keras: the training photos are standardised and those of the validation are not. Printed: loss near 0, and a validation at
    # chance in each epoch.
    Program(_case("beetle-photos", ("J05",)), with_python("beetle_photos")),
    # A binary cross entropy by hand, and a column with one huge value: the probability is exactly 0 or 1, and its logarithm
    # infinite. Printed: the loss falls, and is nan from the second half of the first epoch on.
    Program(_case("loan-desk", ("J01", "nan_loss")), with_python("loan_desk")),
    # ---- faults: memory and time, one process
    # Lightning: training_step appends its batch and forecasts to a list that is never cleared. top: memory grows steadily by
    # some 6 MB/s. Nothing of it is printed.
    Program(_case("gas-meters", ("H06",), acceptable=("E04", "H05")), with_python("gas_meters")),
    # Every 30 steps the loop waits while a checkpoint is compressed with gzip: a quarter of the time. py-spy: gzip under save.
    # Printed: a progress bar that stops for seconds.
    Program(_case("sediment-cores", ("E07",)), with_python("sediment_cores")),
    # ---- faults: two ranks
    # The utterances are sorted by length and cut in halves: rank 1 has the longer ones and computes 2.5 times as long. top:
    # rank 0 is mostly idle; py-spy: it waits in backward. Nothing of it is printed.
    Program(_case("village-dialects", ("F03",), acceptable=("F02", "F05")), with_torchrun("village_dialects"), 2),
    # mp.spawn, a loader without a DistributedSampler and the same seed on each rank. Printed: both ranks' losses, which agree
    # in each digit.
    Program(_case("traffic-cones", ("C05",)), with_python("traffic_cones"), 2),
    # Only rank 0 validates, and torchmetrics gathers from all ranks: rank 0 waits in a barrier, and rank 1 in the broadcast of
    # the buffers before its next forward. py-spy shows both. Printed: nothing more after step 100.
    Program(_case("roof-tiles", ("C08",), acceptable=("G01",)), with_torchrun("roof_tiles"), 2, onset="last line"),
    # ---- healthy: one process
    # An energy model: the loss is a difference of energies that hovers around 0, while the printed distance falls.
    Program(_case("healthy-ink-blots"), with_python("ink_blots")),
    # A pool computes features for most of a minute, once, and then one process trains on what lies in memory.
    Program(_case("healthy-choir-scores"), with_python("choir_scores")),
    # The moving average of the weights is evaluated: it stays at chance at first, while the loss falls, and follows.
    Program(_case("healthy-snail-shells"), with_python("snail_shells")),
    # Trainer: the loss reaches the entropy of the grammar early, and stays there; each gradient is clipped.
    Program(_case("healthy-phrase-books"), with_python("phrase_books")),
    # ---- healthy: two ranks
    # Gradients of 12 micro batches are added up under no_sync: the ranks talk once a second. Started by a shell script which
    # sets all that a launcher would.
    Program(_case("healthy-cargo-bikes"), ("bash", "cargo_bikes.sh"), 2),
    # Accelerate, and a flow: the loss is a negative logarithm of a density, which falls far below 0.
    Program(_case("healthy-tree-rings"), with_torchrun("tree_rings"), 2),
)
