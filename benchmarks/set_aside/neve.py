"""Nine faults that people ask about in forums, issues and tickets, and six healthy programs that look odd.

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
    # Keras: the only output unit has a softmax, so it is always 1. The printed loss and accuracy are the same in each epoch,
    # and Keras warns of the axis of size 1.
    Program(_case("heart-clinic", ("J03",)), with_python("heart_clinic")),
    # zero_grad is called once an epoch, before the loop over the batches. The printed loss swings, and grows from there.
    Program(_case("bridge-strain", ("J02", "J01", "nan_loss"), acceptable=("J03",)), with_python("bridge_strain")),
    # evaluate() calls model.eval(), before the first epoch and after each, and nothing calls model.train() again: no dropout,
    # and batch norms that never see a batch. Nothing of it is printed.
    Program(_case("pasta-shapes", ("J07",), outside_trace=False), with_python("pasta_shapes")),
    # The Trainer's two data sets number the topics in the order in which they meet them. Printed: loss near 0, accuracy of the
    # evaluation at chance, and an eval_loss that rises.
    Program(_case("support-mails", ("J05",)), with_python("support_mails")),
    # ---- faults: data, time and memory, one process
    # Lightning with detect_anomaly=True, and a cell of many small operations. py-spy: traceback.format_stack under them.
    Program(_case("sleep-stages", ("E05",)), with_python("sleep_stages")),
    # Patches are kept under a key with their random position, so that none is ever found again. top: memory grows steadily.
    Program(_case("herbarium-sheets", ("H06",), acceptable=("E04", "H05")), with_python("herbarium_sheets")),
    # ---- faults: two ranks or two jobs
    # set_epoch is not called, so each epoch has the order of the first. Nothing of it is printed.
    Program(_case("fish-otoliths", ("C06",), acceptable=("J04",), outside_trace=False), with_torchrun("fish_otoliths"), 2),
    # Each rank stops early by the loss on its own hives: one leaves the loop and waits in a barrier, while the other is
    # in a backward of the next epoch. Printed by one rank only: "early stopping".
    Program(
        _case("beehive-weights", ("C08", "C07"), acceptable=("G01", "G04")),
        with_torchrun("beehive_weights"),
        2,
        onset="last line",
    ),
    # Each rank writes the checkpoint to the same path. /proc: last.pt is open in both processes, again and again.
    Program(_case("vineyard-rows", ("C14",)), with_python("vineyard_rows"), 2),
    # ---- healthy: one process
    # Progressive resizing: the steps become slower and larger, as the printed sizes say.
    Program(_case("healthy-moth-colors"), with_python("moth_colors")),
    # Features of a frozen network are kept in memory, which grows until all are there; then a head trains on them.
    Program(_case("healthy-pond-plankton"), with_python("pond_plankton")),
    # Adam, then L-BFGS with a line search, for one physics-informed network after the other: each starts anew at a high loss.
    Program(_case("healthy-heated-rod"), with_python("heated_rod")),
    # A frozen body in evaluation mode, with its batch norms, under a head that trains.
    Program(_case("healthy-cheese-rinds"), with_python("cheese_rinds")),
    # ---- healthy: two ranks
    # Accelerate dispatches the batches of one stream: rank 0 reads for both, and it takes little time.
    Program(_case("healthy-ferry-logs"), with_torchrun("ferry_logs"), 2),
    # Batches of similar length: steps differ much from one to the next, and hardly between the ranks.
    Program(_case("healthy-protein-loops"), with_python("protein_loops"), 2),
)
