"""Programs of engineering teams: classes, configurations, checkpoints, several processes.

Their author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # One DataLoader worker deforms 64^3 regions in pure numpy (about 0.18 s CPU per item, 1.4 s per batch of 8); the 3D U-Net
    # needs about 0.35 s per batch. From outside: the worker process is at 100 % CPU, the main process mostly waits (py-spy:
    # in the data queue's poll/get), steps come every 1.5 s.
    Program(_case("liver-patches", ("D01",), acceptable=("F01",)), with_python("liver_patches")),
    # Windows are divided by the mean of their context; for delisted SKUs a context is all zeros, so 0/0 gives NaN. First such
    # batch is step 76 with this seed (about 20 s); all weights are NaN from then on and 'nll nan' is printed until the end.
    # Visible in the output from step 80 on. The fault is visible only from about 20 s (unloaded 12 s) after the first line
    # on.
    Program(_case("sku-forecaster", ("J01", "nan_loss")), with_python("sku_forecaster")),
    # build_features sorts the rows by inception day, the labels stay in the table's order: features and labels do not belong
    # together. The loss falls from 1.66 (initial) to ln 5 = 1.609 within about 15 s and stays there, validation accuracy 0.20
    # of 5 classes. Visible in the output only.
    Program(_case("policy-risk-bands", ("J03",), acceptable=("J05",)), with_python("policy_risk_bands")),
    # Lightning: training_step appends every sixth batch of logits and masks to self.train_outputs, which on_train_epoch_end
    # reads but never clears (val_outputs is cleared). About 2.4 MB for each batch that is kept (more with fragmentation of
    # the heap): RSS of the process grows steadily (ps, /proc/PID/status). The first seconds of RSS are noisy because of the
    # allocator.
    Program(_case("lit-pipe-corrosion", ("H06",), acceptable=("E04", "H05", "E10")), with_python("lit_pipe_corrosion")),
    # evaluate() calls model.eval() and nobody calls model.train() again; a first evaluation comes before the first step, so
    # the whole training runs in evaluation mode (dropout off, BatchNorm with its initial running statistics). The loss falls
    # all the same; nothing can be seen from outside by ps/top/output.
    Program(_case("intercom-commands", ("J07",), outside_trace=False), with_python("intercom_commands")),
    # Pretraining saves its best checkpoint with the config dataclass in it; the second stage loads it with torch.load(path,
    # map_location), whose weights_only=True refuses __main__.RunConfig. Ends with UnpicklingError 'Weights only load failed'
    # after about 25 s (unloaded) to 45 s, exit code 1.
    Program(_case("supplier-rows", ("weights_only",), acceptable=("exception",)), with_python("supplier_rows"), onset="end"),
    # DataLoader(shuffle=True) without a DistributedSampler: every rank walks through all 24000 pairs (500 steps per epoch of
    # 48 on each of 2 ranks), and since all ranks have the same seed they even see the same batches. From outside: the output
    # says 24000 pairs, world size 2 and 500 steps per epoch with batch 48 (24000/48 = 500, it should be 250).
    Program(_case("policy-docs-biencoder", ("C05",)), with_torchrun("policy_docs_biencoder"), 2),
    # DistributedSampler(shuffle=True) but sampler.set_epoch is never called: the same order in every epoch (from the second
    # epoch, about 10 s, on). Epochs take 5 to 9 s. Not visible from outside without reading the code or tracking.
    Program(
        _case("airfoil-surrogate", ("C06",), acceptable=("J04",), outside_trace=False), with_torchrun("airfoil_surrogate"), 2
    ),
    # Seven shards are dealt out as files[rank::world]: rank 0 has four (187 batches), rank 1 three (140). After batch 140
    # rank 1 leaves the epoch and waits in dist.barrier() of save(), rank 0 waits in the gradient all-reduce of its next
    # backward; the run hangs silently after about 20 to 30 s (gloo's time limit is 30 min). From outside: both ranks at 0 %
    # CPU, output stops after 'epoch 0 step 135/140', py-spy shows backward on one rank and barrier on the other.
    Program(
        _case("hotel-listwise", ("C07",), acceptable=("G01", "C08", "G03", "F03")),
        with_torchrun("hotel_listwise"),
        2,
        onset="last line",
    ),
    # The keypoint head takes part in forward and loss only in the first two epochs; from the third on its parameters get no
    # gradient and DDP (find_unused_parameters=False) raises 'Expected to have finished reduction in the prior iteration' at
    # the second step of epoch 2. Fails after 15 s (unloaded) to 40 s on both ranks.
    Program(
        _case(
            "pallet-detector",
            ("C09", "unused_params", "unused_idx"),
            acceptable=("child_failed", "elastic_exit", "G04", "exception"),
        ),
        with_torchrun("pallet_detector"),
        2,
        onset="end",
    ),
    # After every epoch rank 0 alone decodes all 800 test calls with a beam search in Python (6 to 15 s, about as long as the
    # epoch), while rank 1 waits in dist.barrier(). From outside: rank 1's CPU drops to 0 in every evaluation while rank 0
    # stays at 100 %; the output gives 'decoded 800 calls in N s'. First visible after the first epoch (10 to 25 s).
    Program(_case("hotline-asr", ("B13", "F05"), acceptable=("F02", "E07", "F03")), with_torchrun("hotline_asr"), 2),
    # mp.spawn, two processes. training_step calls self.model.module.sft_loss(...), so DDP's forward never runs and gradients
    # are not averaged: the ranks' parameters drift apart (checked: sums of the parameters differ after 20 steps). From
    # outside: no traffic between the ranks during the steps, they do not keep step with each other (py-spy never shows a wait
    # for a collective except at evaluation).
    Program(_case("ledger-notes-sft", ("C01",), acceptable=("C03", "C11")), with_python("ledger_notes_sft"), 2),
    # Healthy. Notebook export: short pretraining of a small GPT2, then low-rank adapters on another language with a quadratic
    # warm-up from tiny rates and accumulation over 4. The loss jumps from 1.8 to about 5 at the change of the corpus and then
    # falls to 2; most parameters are frozen; eval() and generation every 100 steps, back to train() after it.
    Program(_case("healthy-recipe-notes-finetune"), with_python("recipe_notes_finetune")),
    # Healthy. Momentum contrast with a queue: the loss first rises from 5.2 to 5.8 while real keys replace the random ones,
    # stays there during the warm-up, then falls to 3; the key encoder is in eval mode and without gradients by intention.
    Program(_case("healthy-catalog-moco"), with_python("catalog_moco")),
    # Healthy. A sweep: the parent starts one child process per trial and waits; the loss starts anew in each trial, AUC about
    # 0.95 in all of them.
    Program(_case("healthy-churn-grid-driver"), with_python("churn_grid_driver")),
    # Healthy. Backbone in DDP, the classifier over 1500 identities split over the ranks with hand-written collectives (its
    # weights differ between ranks by intention, each rank saves its own head file). The loss starts at 14 because of scale
    # and margin and falls steadily.
    Program(_case("healthy-badge-faces"), with_torchrun("badge_faces"), 2),
    # Healthy. Detection with 1 to 14 objects per image and a picture size that changes every 10 steps on all ranks alike, so
    # steps are uneven but not by rank; short evaluation shared by the ranks, atomic checkpoint by rank 0.
    Program(_case("healthy-dock-detector"), with_torchrun("dock_detector"), 2),
    # Healthy. First the teacher (3 epochs, DDP), then the student with a frozen teacher in eval mode; the loss changes its
    # scale at the change of phase, warm-up from tiny rates, short evaluation by all ranks and a barrier per epoch.
    Program(_case("healthy-wakeword-distil"), with_torchrun("wakeword_distil"), 2),
)
