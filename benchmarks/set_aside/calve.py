"""Twelve faults that people at companies and institutes ask about, and six healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. The programs use Lightning, Transformers' Trainer,
Accelerate, Keras on torch and own Trainer classes with configs, or are started by bash. Two thirds of the faults have one
process. Each comment says what goes wrong, and what would be seen of it from outside: by ps, top, py-spy and /proc, and in the
printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: numbers and learning, one process
    # Own Trainer and yaml: the warmup is counted in steps, and the scheduler steps once an epoch. The learning rate is 0 in the
    # first epoch and next to 0 in those that follow. The printed loss is level, and the accuracy is at chance.
    Program(_case("carton-codes", ("J03",)), with_python("carton_codes", "carton_codes.yaml")),
    # Keras: validation_split takes the last fifth of data that is sorted by class, so training never sees a picture of the last
    # class. Printed: val_accuracy 0 and a val_loss that rises, while the accuracy rises.
    Program(_case("tank-seams", ("J05",), acceptable=("J04",)), with_python("tank_seams")),
    # Two rows of the csv lack a number, and the first batch with one of them makes the weights NaN. Printed: loss nan.
    Program(_case("parcel-times", ("J01", "nan_loss")), with_python("parcel_times")),
    # Transformers' Trainer: metric_for_best_model is "f1", and compute_metrics returns "macro_f1". Printed: the KeyError of the
    # first evaluation, which ends the run.
    Program(
        _case("expense-notes", ("exception",), "metric_for_best_model|eval_f1"),
        with_python("expense_notes"),
        onset="end",
    ),
    # ---- faults: data, time and memory, one process
    # Lightning without workers: each recording is read, transformed and stretched in the main process. py-spy: stretch and stft
    # under the loader's __next__ nearly all the time.
    Program(_case("gearbox-noise", ("D01",)), with_python("gearbox_noise")),
    # The loop writes weights and optimizer through gzip every 25 steps. py-spy: gzip in save() for seconds; the printed steps
    # stop meanwhile.
    Program(_case("report-drafts", ("E07",)), with_python("report_drafts")),
    # Lightning: training_step_outputs, as of the port to 2.0, is never cleared. top: memory grows steadily.
    Program(_case("cell-nuclei", ("H06",), acceptable=("E04", "H05")), with_python("cell_nuclei")),
    # ---- faults: two GPUs or two ranks
    # An Accelerate script for two GPUs is started by plain python. ps: one process, and no launcher; the second GPU is idle.
    Program(_case("part-numbers", ("A01",), acceptable=("A02", "A16")), with_python("part_numbers"), 2),
    # No DistributedSampler, and the same seed: both ranks train on the same batches. Nothing of it is printed.
    Program(_case("meter-faults", ("C05",), outside_trace=False), with_torchrun("meter_faults"), 2),
    # Lightning: a callback calls trainer.save_checkpoint on rank 0 alone, which waits in its barrier, while rank 1 is in a
    # backward. The output stops; py-spy shows both.
    Program(_case("blood-smears", ("C08",), acceptable=("G01",)), with_torchrun("blood_smears"), 2, onset="last line"),
    # ---- healthy: one process
    # Slots of 50 s: a process ends by itself, and the next one resumes from its checkpoint.
    Program(_case("healthy-paper-mill"), ("bash", "paper_mill.sh")),
    # Keras with a Gaussian likelihood: the loss is negative and falls, and the mean over the epoch so far is printed.
    Program(_case("healthy-crop-yields"), with_python("crop_yields")),
    # Transformers' Trainer twice: a language model, then low-rank adapters on the frozen one, whose loss begins higher again.
    Program(_case("healthy-contract-clauses"), with_python("contract_clauses")),
    # An evaluation job over checkpoints, cameras and noise levels: no training, and a score that falls with the noise.
    Program(_case("healthy-bolt-checks"), with_python("bolt_checks")),
    # ---- healthy: two GPUs or two ranks
    # A sweep: a bash worker for each card starts one setting after the other, and the two know nothing of each other.
    Program(_case("healthy-sand-grading"), ("bash", "sand_grading.sh"), 2),
    # Distillation: a frozen teacher in evaluation mode, unwrapped, and a student in DDP with no_sync over four micro batches.
    Program(_case("healthy-phone-menus"), with_torchrun("phone_menus"), 2),
)
