"""Twelve faults as they occur at companies and institutes, and six healthy programs that look odd.

Lightning, Transformers' Trainer, Accelerate, Keras on torch, and trainers of people's own. Their author knew only the ids and
titles of the rules, and no verdict. Each comment says what goes wrong, and what would be seen of it from outside: by ps, top,
py-spy, /proc and nvidia-smi, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: input, one process
    # Lightning: short epochs, and a loader without persistent_workers whose two workers are spawned, because of HDF5. In each
    # epoch they import everything again, which takes longer than the epoch. ps: the workers' pids change; Lightning warns.
    Program(_case("rope-splices", ("D06",), acceptable=("D01",)), with_python("rope_splices")),
    # Keras: a PyDataset with one worker unpacks and turns each picture in numpy, between the steps of a small network.
    # py-spy: the main thread is in __getitem__ most of the time.
    Program(_case("vase-sherds", ("D01",)), with_python("vase_sherds")),
    # ---- faults: learning, one process
    # The distance in a triplet loss is a square root, whose gradient at 0 is infinite: the loss becomes NaN at the first pair
    # that is twice the same photo, after some 750 steps. The loss is printed.
    Program(_case("watch-dials", ("J01", "nan_loss")), with_python("watch_dials")),
    # Predictions of shape (128, 1) against targets of shape (128,): torch warns of it, and the printed loss stays at the
    # variance of the prices.
    Program(_case("timber-prices", ("target_size",), acceptable=("J03",)), with_python("timber_prices")),
    # ---- faults: memory, time and checkpoints, one process
    # A Trainer's compute_loss keeps the logits of every step for a metric that reads the last 50. top: memory grows steadily.
    Program(_case("polite-replies", ("H06",), acceptable=("E04", "H05")), with_python("polite_replies")),
    # After each step a tracker reads all rows of the run so far from sqlite. The printed lines come ever more slowly; py-spy:
    # summary().
    Program(_case("oven-curves", ("E10",)), with_python("oven_curves")),
    # Accelerate: every 80 steps the full state goes to a slow archive, for some 8 s in which nothing is trained. The printed
    # lines pause, and py-spy shows the copy.
    Program(_case("tunnel-lining", ("E07",)), with_python("tunnel_lining")),
    # ---- faults: two ranks
    # torchrun starts a Keras script that does nothing to train together: each process fits its own model. Both print their
    # own losses; neither has a process group (py-spy), and no connection leads from one to the other (ss).
    Program(_case("noise-maps", ("A18",), acceptable=("C03",)), with_torchrun("noise_maps"), 2),
    # Lightning adds no sampler to an IterableDataset, and this one gives each rank all windows in the same order. Nothing of
    # it is printed; that both have the same file open would also be so if each took every second window.
    Program(_case("tap-water", ("C05",), outside_trace=False), with_python("tap_water"), 2),
    # Lightning: a callback calls save_checkpoint on rank 0 only, which ends in a barrier, while rank 1 is in a backward of the
    # next step. py-spy shows both; nothing more is printed.
    Program(_case("sawmill-boards", ("C08",), acceptable=("G01",)), with_torchrun("sawmill_boards"), 2, onset="last line"),
    # The training saves the state of the DDP wrapper, and the report after it cannot load it into the bare model. Printed:
    # missing keys, and unexpected ones that begin with "module.".
    Program(_case("wheel-axles", ("C13",), acceptable=("exception",)), ("bash", "wheel_axles.sh"), 2, onset="end"),
    # ---- healthy: one process
    # Sharpness-aware minimisation by hand in Lightning: two passes in each step, and a bar that is not printed to a file.
    Program(_case("healthy-walnut-shells"), with_python("walnut_shells")),
    # Keras: noise and dropout make the validation better than the training, and the triangular learning rate lets the loss
    # rise a little now and then.
    Program(_case("healthy-vacuum-motors"), with_python("vacuum_motors")),
    # Transformers: a slow warmup, in which the loss stands still for 200 steps; then it falls to a high floor, because of
    # label smoothing and of labels that are partly wrong.
    Program(_case("healthy-queue-tickets"), with_python("queue_tickets")),
    # Accelerate: a teacher is trained, and then a student learns from it: the teacher stays in evaluation mode, and another
    # loss begins.
    Program(_case("healthy-wood-species"), with_python("wood_species")),
    # ---- healthy: two ranks
    # Accelerate: gradients of four batches are accumulated, without communication in three of them; the data does not divide
    # evenly, and the test gathers what the ranks predict.
    Program(_case("healthy-textile-fibers"), with_torchrun("textile_fibers"), 2),
    # A trainer of one's own: rank 0 writes checkpoints in a thread, and the validation of a moving average bypasses DDP, as it
    # may, with its part on each rank.
    Program(_case("healthy-rotor-icing"), with_torchrun("rotor_icing"), 2),
)
