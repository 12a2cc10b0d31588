"""Seven faults from tickets of teams at companies, and five healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. These are own Trainer classes with their configuration
files, Lightning, Accelerate, Transformers and Keras, and jobs from bash scripts; two thirds have one process. Each comment says
what goes wrong, and what would be seen of it from outside: by ps, top, py-spy and /proc, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: data, one process
    # Each item opens its compressed archive and unpacks all tiles of it for one row, with num_workers: 0. py-spy: the main
    # thread is in numpy's reading of the archive nearly always.
    Program(_case("turbine-blades", ("D01",)), with_python("turbine_blades", "--config", "turbine_blades.yaml")),
    # ---- faults: numbers and learning, one process
    # Accelerate: the scheduler's warm-up counts steps, and it is stepped once an epoch. The learning rate is 0 in the first
    # epoch and about 1e-8 later; the printed loss stays at that of guessing.
    Program(_case("invoice-lines", ("J03",)), with_python("invoice_lines")),
    # Lightning: one empty cell of the file is read as NaN, and some hundred steps later a window holds it. Printed:
    # train_loss=nan.
    Program(_case("compressor-hall", ("J01", "nan_loss"), acceptable=("J03",)), with_python("compressor_hall")),
    # ---- faults: memory, time and checkpoints, one process
    # A typing error in reset(): the list of heat maps is never emptied. top: memory grows by the same amount each second.
    Program(_case("shelf-scans", ("H06",), acceptable=("E04", "H05")), with_python("shelf_scans")),
    # The Trainer saves model and optimizer every few steps, and a callback packs them into a compressed archive. Printed: no
    # line for seconds at regular intervals; py-spy: tarfile and gzip under on_save.
    Program(_case("shipping-notes", ("E07",)), with_python("shipping_notes")),
    # ---- faults: two ranks
    # Accelerate: the model is not among what is prepared, so no gradient is averaged. Nothing of it is printed.
    Program(_case("call-reasons", ("C03",), outside_trace=False), with_torchrun("call_reasons"), 2),
    # Lightning: all_gather is called under is_global_zero, and the other rank is already in the next epoch's backward.
    # py-spy: rank 0 in all_gather, rank 1 in the backward. The output ends.
    Program(_case("ore-samples", ("C08",), acceptable=("G01",)), with_torchrun("ore_samples"), 2, onset="last line"),
    # ---- healthy: one process
    # Keras: fit is called for one epoch of each part of a large table, so that the printed lines count no epochs.
    Program(_case("healthy-insurance-claims"), with_python("insurance_claims")),
    # A mean teacher in Lightning: the weight of the consistency ramps up, and the total loss with it, as printed.
    Program(_case("healthy-shoe-soles"), with_python("shoe_soles")),
    # Training for a chip: after the float epochs weights are quantised, the loss jumps, and batch norms are frozen on purpose.
    Program(_case("healthy-doorbell-chip"), with_python("doorbell_chip")),
    # Transformers: dropout keeps the training loss above that of the evaluation; a warm-up and a cosine.
    Program(_case("healthy-menu-cards"), with_python("menu_cards")),
    # ---- healthy: two ranks
    # No launcher, but all variables are set; DDP with no_sync on three of four batches, and a likelihood that may fall below 0.
    Program(_case("healthy-port-cranes"), ("bash", "port_cranes.sh"), 2),
)
