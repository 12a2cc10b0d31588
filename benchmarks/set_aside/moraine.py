"""Twelve faults that people at companies and institutes ask about, and six healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. Frequent mistakes are frequent here: Lightning, the
Trainer of Transformers, Accelerate, Keras and own Trainer classes, started by Python, torchrun or bash. Each comment says what
goes wrong, and what would be seen of it from outside: by ps, top, py-spy and /proc, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: input, one process
    # Lightning without workers: large photos are unpacked and blurred in the main process, which takes much longer than the
    # step. py-spy: most of the time in __getitem__.
    Program(_case("parcel-photos", ("D01",)), with_python("parcel_photos")),
    # Accelerate: two spawned workers, which import torch and accelerate anew in each epoch of a few seconds. ps: young workers,
    # again and again. Printed: a bar that stands at 0 first.
    Program(_case("spare-parts", ("D06",), acceptable=("D01", "E07")), with_python("spare_parts")),
    # ---- faults: learning, one process
    # Transformers' Trainer: texts and labels are shuffled independently. Printed: a loss that stays at ln 7, and an accuracy at
    # chance.
    Program(_case("ticket-routing", ("J03",)), with_python("ticket_routing")),
    # Keras: validation_split takes the last fifth of data sorted by class, a class that training never sees. Printed: accuracy
    # near 1, val_accuracy 0, and a val_loss that rises.
    Program(_case("quarry-stones", ("J05",)), with_python("quarry_stones")),
    # ---- faults: time and memory, one process
    # Lightning: the outputs of the steps are kept and never cleared after an epoch. top: memory grows steadily.
    Program(_case("pump-curves", ("H06",), acceptable=("E04", "H05")), with_python("pump_curves")),
    # ---- faults: two ranks or two processes
    # No DistributedSampler, and one seed: both ranks train on the same batches of all the data. Nothing of it is printed.
    Program(_case("paper-abstracts", ("C05",), outside_trace=False), with_torchrun("paper_abstracts"), 2),
    # bash starts a process for each GPU without RANK and WORLD_SIZE: each trains the same model on its own. Printed: "Not using
    # distributed mode" and "[rank 0/1]", both twice. /proc: MASTER_PORT, no RANK, and no socket between them.
    Program(_case("wafer-maps", ("A18",), acceptable=("A01", "C03", "C05")), ("bash", "wafer_maps.sh"), 2),
    # Rank 0 draws histograms and a picture in each step, and rank 1 waits for it in the backward. py-spy: Dashboard in rank 0.
    Program(_case("vessel-tracks", ("F05",), acceptable=("F02",)), with_torchrun("vessel_tracks"), 2),
    # ---- healthy: one process
    # Lightning with mixup, label smoothing and dropout: training looks worse than validation all the time.
    Program(_case("healthy-yeast-plates"), with_python("yeast_plates")),
    # Transformers' Trainer resumes from its checkpoint twice in one process: new models, and a loss that continues.
    Program(_case("healthy-query-intents"), with_python("query_intents")),
    # Keras: a negative log-likelihood of densities falls below 0.
    Program(_case("healthy-power-prices"), with_python("power_prices")),
    # A thread writes checkpoints to a slow archive for much of the time, and training goes on meanwhile.
    Program(_case("healthy-slab-cracks"), with_python("slab_cracks")),
    # ---- healthy: two ranks or two processes
    # Accelerate accumulates eight batches: ranks exchange gradients in one step of eight only.
    Program(_case("healthy-parts-search"), with_torchrun("parts_search"), 2),
    # bash: a queue of independent short runs for each GPU, which end and are followed by the next.
    Program(_case("healthy-turnover-grid"), ("bash", "turnover_grid.sh"), 2),
)
