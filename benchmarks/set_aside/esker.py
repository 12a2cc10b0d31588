"""Twelve faults of work at companies and institutes, and six healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. Frequent mistakes are frequent here, and two thirds of
the programs have one process. They use Lightning, Transformers' Trainer, Accelerate, Keras, own trainers, and jobs from bash.
Each comment says what goes wrong, and what would be seen of it from outside: by ps, top, py-spy and /proc, and in the printed
output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: input, one process
    # The Trainer's default of no loader workers, and a dataset that unpacks, evens out, rotates and filters large scans in
    # __getitem__. py-spy: most samples are there, and few in the model.
    Program(_case("tulip-grades", ("D01",)), with_python("tulip_grades")),
    # Lightning: two spawned workers without persistent_workers import everything anew in each epoch. ps: new workers every few
    # seconds, and the trainer waits for their first batch. Printed: Lightning's advice about persistent_workers.
    Program(_case("quay-cameras", ("D06",), acceptable=("D01", "E07")), with_python("quay_cameras")),
    # ---- faults: learning, one process
    # Transformers: the template of the answer is found in no text, so all labels are -100. Printed: a loss and a
    # grad_norm of 0, from the first step on.
    Program(_case("notary-letters", ("J03",)), with_python("notary_letters")),
    # Keras: validation_split takes the last fifth of pictures that are sorted by kind, so it holds a kind that is not trained.
    # Printed: a val_loss that rises to 10 and more and an accuracy of 0.17 there, while loss falls.
    Program(_case("pastry-shop", ("J05",)), with_python("pastry_shop")),
    # Lightning: the files, one for each class, are read one after the other, without shuffle. Printed: a loss that falls to 0
    # and jumps at each new class, and an accuracy of the validation at chance.
    Program(_case("pigment-spectra", ("J04",), acceptable=("J03", "J05")), with_python("pigment_spectra")),
    # ---- faults: memory, time and checkpoints, one process
    # Lightning: a list of the steps' outputs, as the migration to 2.0 advises, that nothing clears. top: memory grows
    # steadily.
    Program(_case("reservoir-inflow", ("H06", "E04"), acceptable=("H05",)), with_python("reservoir_inflow")),
    # The logger reads the whole history from a JSON file and writes it again in each step. py-spy: json; and the printed times
    # of the steps grow.
    Program(_case("weaving-defects", ("E10",)), with_python("weaving_defects")),
    # Accelerate: the state is packed into a tar.gz in the loop every 50 steps, which takes a third of the time.
    # Printed: the seconds of each ten steps. py-spy: make_archive.
    Program(_case("patent-claims", ("E07",)), with_python("patent_claims")),
    # ---- faults: two ranks or two processes
    # A BatchNorm1d behind a pooling sees the two volumes of a rank. Printed: the model, and two volumes per GPU.
    Program(_case("tendon-scans", ("C10",), acceptable=("C12",)), with_torchrun("tendon_scans"), 2),
    # Lightning: trainer.save_checkpoint is called by rank 0 only, whose barrier waits while rank 1 is in a broadcast of the
    # next epoch. Printed by rank 0 only: "new best, saving".
    Program(_case("vowel-charts", ("C08",), acceptable=("G01",)), with_torchrun("vowel_charts"), 2, onset="last line"),
    # Accelerate under srun without its launcher: two tasks which each are process 0 of 1. Printed: "Num processes: 1", twice;
    # /proc: SLURM_NTASKS=2, and no connection between them.
    Program(_case("rail-bogies", ("A18",), acceptable=("A01", "A07", "C03", "C05")), ("bash", "rail_bogies.sh"), 2),
    # Two ranks save the wrapped model; the evaluation after it loads it into a bare one. Printed: names with "module.".
    Program(_case("zinc-castings", ("C13",), acceptable=("exception",)), ("bash", "zinc_castings.sh"), 2, onset="end"),
    # ---- healthy: one process
    # GRPO: advantages have a mean of 0 in each group, so the loss stays near 0 while the reward rises.
    Program(_case("healthy-pocket-change"), with_python("pocket_change")),
    # Keras: clicks are mostly chance, so the log loss soon is near its floor, and falls slowly; the validation follows.
    Program(_case("healthy-newsletter-clicks"), with_python("newsletter_clicks")),
    # A short training, then only evaluation: the printed loss rises with the severity of each corruption.
    Program(_case("healthy-quality-gate"), with_python("quality_gate")),
    # Lightning: the negative log likelihood of a flow passes 0 and goes on falling.
    Program(_case("healthy-sugar-beets"), with_python("sugar_beets")),
    # ---- healthy: two ranks or two processes
    # DDP with Join: one rank has a few batches more, which the other one shadows.
    Program(_case("healthy-toll-bridges"), with_torchrun("toll_bridges"), 2),
    # A grid by xargs, two independent trials at a time, each with other options and a file of its own.
    Program(_case("healthy-wine-cellars"), ("bash", "wine_cellars.sh"), 2),
)
