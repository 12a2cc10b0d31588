"""Twelve faults of engineers and self-taught people, and six healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. Each comment says what goes wrong, and what would be
seen of it from outside: by ps, top, py-spy and /proc, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # Each plate is rendered and warped in numpy in __getitem__ with num_workers=0: about three quarters of each step is data
    # preparation in the main thread. top: one busy core (torch's threads mostly idle); py-spy: main thread mostly in
    # smooth/apply_along_axis under the DataLoader's _next_data. Output: steady img/s, falling loss.
    Program(_case("plate-reader", ("D01",)), with_python("plate_reader")),
    # X and y are shuffled independently, so labels do not belong to the rows. Output: loss stays at ln(4)=1.386 (creeps down
    # by some thousandths through memorising), val_acc about 0.25 = chance for 4 equal classes, val_loss slightly rises. ps
    # and top show a normal run.
    Program(_case("segment-mlp", ("J03",)), with_python("segment_mlp")),
    # Hand-written focal loss takes log(1-p) of a saturated sigmoid: 0*inf gives NaN after about 1900 steps (20-25 s on a
    # quiet machine, 43 s on a loaded one); all later losses are nan and the run goes on. Output: focal_loss=nan; recall is
    # then the base rate. Nothing from ps or top.
    Program(_case("fraud-focal", ("J01", "nan_loss")), with_python("fraud_focal"), onset="last line"),
    # The history keeps every step's score tensors (512x384 floats, about 0.75 MB a step) for the report and never drops them.
    # /proc: RSS rises steadily from about 600 MB by 2-4 MB/s, with a wobble of +-50 MB from temporary gradients; ends by
    # itself after 850 steps (about 190 s with one quiet core) below 1.5 GiB. Loss is healthy.
    Program(_case("item2vec-sgns", ("H06", "E04"), acceptable=("H05",)), with_python("item2vec_sgns"), onset="last line"),
    # Prioritised replay computes the probabilities of all stored transitions in Python lists at each sample; the memory grows
    # by 32 a step, so steps/s falls throughout (and once abruptly when learning starts at 1000 transitions). Output: steps/s
    # falls; py-spy: ever more time in sample(). RSS grows only slightly.
    Program(_case("dqn-snake", ("E10",)), with_python("dqn_snake"), onset="last line"),
    # Every 120 steps the loop writes a bz2-compressed checkpoint (5 s) synchronously, after about 9 s of training. Output:
    # time stamps jump after each 120th step; py-spy: main thread in bz2 write under Checkpointer.save; a file in a temporary
    # folder appears each time. Reads session_rec.yaml beside it.
    Program(_case("session-rec", ("E07",)), with_python("session_rec")),
    # A few images have two boxes, the rest one; the default collate cannot stack them: RuntimeError 'stack expects each
    # tensor to be equal size' from worker 0 after about 5 s; exit code 1.
    Program(
        _case("detect-cartons", ("unequal_samples",), acceptable=("exception",)), with_python("detect_cartons"), onset="end"
    ),
    # Spawned workers without persistent_workers for 20 batches per epoch, and again for 4 validation batches: about 3/4 of
    # each epoch is starting interpreters that import torch. ps: worker processes with new pids every 2 s; main thread waits
    # in the loader, CPU mostly in the new children. Output: 4-5 s per tiny epoch.
    Program(_case("defects-nb", ("D06",), acceptable=("D01",)), with_python("defects_nb")),
    # The loss calls self.model.module.encode_*, bypassing DDP's forward: no gradient is averaged. Both ranks at full CPU, no
    # socket traffic between them apart from the barrier per epoch, no DDP frames in py-spy. Output: both ranks' losses fall
    # normally; they differ because the data differ.
    Program(_case("two-tower", ("C01",), acceptable=("C03", "A18")), with_torchrun("two_tower"), 2),
    # At step 400 rank 0 alone enters save_checkpoint, which ends with dist.barrier(), while rank 1 goes on to the next step's
    # all_reduce: both wait (gloo, 30 minutes). Output stops after step 400 (about 8-15 s); both ranks at 0% CPU; py-spy: rank
    # 0 in barrier, rank 1 in backward.
    Program(_case("yard-detector", ("C08",), acceptable=("G01",)), with_torchrun("yard_detector"), 2, onset="last line"),
    # Lines are sorted by width and divided into contiguous halves: rank 1 gets all wide lines with the same number of
    # batches. top: rank 0 about 40-45% of rank 1's CPU time, rank 1 near 100%, rank 1's RSS larger; py-spy: rank 0 often
    # waits in backward/all_reduce.
    Program(_case("ocr-lines", ("F03",), acceptable=("F02",)), with_torchrun("ocr_lines"), 2),
    # The wrapper sets WORLD_SIZE=2 without exporting it: each of two processes sees RANK and LOCAL_RANK but a world of 1,
    # trains alone on all data with the same seed. Output: both ranks print 431 steps per epoch for 27600 windows at batch 64,
    # and the same losses. /proc/PID/environ has RANK, MASTER_ADDR and no WORLD_SIZE; no connection between the two.
    Program(_case("run-forecast", ("A18",), acceptable=("A01", "C03", "C05")), ("bash", "run_forecast.sh"), 2),
    # Healthy. InfoNCE stays above 5.5 during a quartic warm-up of 800 steps (rates from 1e-15), then falls quickly; recall on
    # held-out pairs near 1.
    Program(_case("healthy-product-clip"), with_python("product_clip")),
    # Healthy. WGAN-GP with three critic steps: losses have both signs and wander; the gap of the means falls.
    Program(_case("healthy-tabgan"), with_python("tabgan")),
    # Healthy. A bash loop of 12 trials of 15-25 s, one process after another; the loss restarts in each.
    Program(_case("healthy-sweep-demand"), ("bash", "sweep_demand.sh")),
    # Healthy. Rank 1 plays and sends rollouts, rank 0 learns and sends weights by send/recv; the two alternate by design and
    # do different work; the return rises and then wanders.
    Program(_case("healthy-games-by-actors"), with_torchrun("actor_learner"), 2),
    # Healthy. An inference server with a batching thread and a client process of its own that sends bursts; mostly idle.
    Program(_case("healthy-embed-server"), with_python("embed_server")),
    # Healthy. 12 s (more on a loaded machine) of feature preparation by a pool of two processes, then training with short
    # bootstrap evaluations; AUC converges to 0.946 and stays.
    Program(_case("healthy-chargeback"), with_python("chargeback")),
)
