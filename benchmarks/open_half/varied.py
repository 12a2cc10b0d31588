"""Programs of many kinds, open half, by an author who knew the rules by their titles."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # The rate decays by the step, and was meant to decay by the epoch: after 40 steps it is nothing.
    Program(
        _case("decays-every-batch", ("J03",)), with_python("decays_every_batch", "--config", "patches.yaml", "optim.lr=3e-3")
    ),
    # Nobody calls set_epoch, so that each epoch has the same order.
    Program(_case("same-order-again", ("C06",), outside_trace=False), with_torchrun("same_order_again"), 2),
    # All ranks write one checkpoint.
    Program(_case("everyone-saves-last", ("C14",)), with_torchrun("everyone_saves_last"), 2),
    # When episodes have one step, the standard deviation of their advantages is NaN.
    Program(_case("advantage-of-one", ("J01", "nan_loss")), with_python("advantage_of_one")),
    # Each step sorts all predictions since the start.
    Program(_case("auc-of-everything", ("E10",), acceptable=("E04", "H06")), with_python("auc_of_everything")),
    # The second node's folder does not exist, so that the first waits for ever.
    Program(_case("two-nodes-one-box", ("G06", "G03"), acceptable=("exception", "LOG")), ("bash", "two_nodes_one_box.sh"), 2),
    # DataParallel sees no two GPUs, and one process trains.
    Program(_case("wraps-for-two", ("B12", "A01", "A02", "B04"), acceptable=("A12",)), with_python("wraps_for_two"), 2),
    # Anomaly detection was left on.
    Program(_case("debug-left-on", ("E05",)), with_python("debug_left_on", "lr=5e-4", "debug=true")),
    # Every 16th step also computes a penalty, as it should.
    Program(_case("healthy-lazy-r1"), with_python("lazy_r1")),
    # Requests come when they come.
    Program(_case("healthy-translates-a-queue"), with_python("translates_a_queue")),
    # The ranks have unequal numbers of batches, and Join deals with it.
    Program(_case("healthy-joins-uneven"), with_torchrun("joins_uneven"), 2),
    # Two trials at a time, one per card; one that diverges is dropped.
    Program(_case("healthy-xargs-sweep"), ("sh", "xargs_sweep.sh"), 2),
    # Evolution without gradients, in a pool.
    Program(_case("healthy-antithetic-es"), with_python("antithetic_es"), 2),
    # The tutorial's trainer over gloo.
    Program(_case("healthy-tiny-ddp"), with_torchrun("tiny_ddp"), 2),
)
