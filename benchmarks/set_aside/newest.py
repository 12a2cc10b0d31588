"""Faults that people post often and healthy work that looks odd, set aside: their author knew only the titles of the rules.

Each comment names the cause, and what somebody with ps, top, py-spy and the printed output would see of it. What leaves no such
trace has ``outside_trace=False``.
"""

from __future__ import annotations

import sys
from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")
_ACCELERATE = (sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--main_process_port=0")
_ENDED = ("exception", "LOG", "G04", "child_failed", "elastic_exit", "gloo_peer", "cpp_terminate")
"""What is said of a run that failed, without its cause."""

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: data
    # 14 workers on two cores. The warning of the DataLoader says it, and top shows them.
    Program(
        _case("many-hands", ("D02", "too_many_workers"), acceptable=("D01", "F04", "D07")),
        ("bash", "many_hands.sh"),
    ),
    # Workers are forked while a thread holds the tokenizer's lock: each waits for it forever. Stacks: all processes wait.
    Program(_case("forks-with-a-lock", ("G01",), acceptable=("D01",)), with_python("forks_with_a_lock"), onset="last line"),
    # ---- faults: ranks and devices
    # Rank 0 sorts all weights and gradients in each step; rank 1 waits in its backward. CPU time per rank, and stacks.
    Program(_case("histograms-of-all", ("F05", "F02"), acceptable=("F03",)), with_torchrun("histograms_of_all"), 2),
    # --gpu_ids 0,1 sets the mask, and the script uses the first of the two. One device idles.
    Program(
        _case("asks-for-both-cards", ("A02", "A16"), acceptable=("A01", "A03", "A11")),
        with_python("asks_for_both_cards", "--gpu_ids", "0,1"),
        2,
    ),
    # The local rank comes from a variable of Slurm's, which mpirun does not set: both ranks take the first device.
    Program(_case("under-mpirun", ("A07",), acceptable=("A02",)), ("bash", "under_mpirun.sh"), 2),
    # The settings say four ranks, and two are started. Both wait in init_process_group, and print how many.
    Program(_case("cluster-of-four", ("G03",), acceptable=("G01", "G02", "G06")), ("bash", "cluster_of_four.sh"), 2),
    # all_gather under "if is_main_process()": rank 0 waits in it, and rank 1 in its next backward.
    Program(
        _case("gathers-on-main-only", ("C08",), acceptable=("G01", "C07")),
        with_python("gathers_on_main_only"),
        2,
        onset="last line",
    ),
    # A rank that meets a NaN leaves out the backward; at the end of the epoch, it is one collective behind the other.
    Program(
        _case("skips-bad-batches", ("C07", "C08"), acceptable=("G01", "J01", "nan_loss", *_ENDED)),
        with_torchrun("skips_bad_batches"),
        2,
        onset="last line",
    ),
    # Each rank leaves out other layers, and averages only the gradients that it has: sizes differ, and gloo gives up.
    Program(
        _case(
            "drops-layers",
            ("C08", "coll_mismatch", ANY),
            r"different (collectives|sizes|tensors)|sizes? differ|mismatch",
            _ENDED,
        ),
        with_torchrun("drops_layers"),
        2,
        onset="end",
    ),
    # Each rank trains its own model on its half; rank 0 prints a loss that falls. Nothing shows it from outside.
    Program(
        _case("each-on-its-own-half", ("C03",), acceptable=("C01",), outside_trace=False),
        with_python("each_on_its_own_half"),
        2,
    ),
    # ---- faults: memory, disk and time
    # Validation losses are kept with their graphs, as no_grad is missing. Memory of the process: about 30 MB more each time.
    Program(
        _case("validates-with-graphs", ("H06", "E04"), acceptable=("H05",)),
        with_python("validates_with_graphs"),
    ),
    # All pairs of 60 000 samples, in one tensor of 921 GB. The exception says it.
    Program(
        _case("all-pairs-at-once", ("H05", ANY), r"921|858|allocat|machine.*memory", _ENDED),
        with_python("all_pairs_at_once"),
        onset="end",
    ),
    # The state is saved in each step, which takes longer than the step. Stacks: torch.save; bytes written.
    Program(
        _case("never-loses-a-step", (ANY,), r"checkpoint|torch\.save|\bsav(e|es|ed|ing)\b", ("D07", "E07")),
        with_python("never_loses_a_step"),
    ),
    # 120 batches are evaluated after 20 that are trained. The log has the times of the steps, and stacks say where.
    Program(
        _case("checks-itself-too-often", (ANY,), "evaluat|validat", ("E07",)),
        with_python("checks_itself_too_often"),
    ),
    # ---- faults: learning
    # The learning rate is far too high: the loss jumps up, and is NaN from step 60 on. Both are printed.
    Program(_case("entropy-bonus", ("J01", "J02", "nan_loss")), with_python("entropy_bonus", "entropy_bonus.yaml")),
    # The optimizer has the old head, and the rest is frozen. The printed loss stays at that of guessing.
    Program(_case("new-head-cells", ("J03",)), with_python("new_head_cells")),
    # ---- healthy
    # Batches with a NaN are left out, and this is printed.
    Program(_case("healthy-leaves-out-what-is-nan"), with_python("leaves_out_what_is_nan")),
    # Data for tomorrow are made beside the training, with low priority.
    Program(_case("healthy-shards-for-tomorrow"), ("bash", "shards_for_tomorrow.sh")),
    # Four batches for each update, and a warm-up of the rate.
    Program(_case("healthy-launched-with-accelerate"), (*_ACCELERATE, "launched_with_accelerate.py"), 2),
    # A loss that falls from 0 towards -1.
    Program(_case("healthy-falls-below-zero"), with_python("falls_below_zero")),
)
