"""Twelve faults of research code, and six healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. Each comment says what goes wrong, and what would be
seen of it from outside: by ps, top, py-spy and /proc, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # DataLoader with num_workers=0 and costly numpy augmentation and log-mel frames in __getitem__: about 85% of a step is
    # loading. Seen: py-spy shows __getitem__/augment/logmel in the main thread; CPU about 105% of the 200% that torch would
    # use; utt/s low and constant. The loss falls.
    Program(_case("spoken-keywords", ("D01",)), with_python("spoken_keywords")),
    # sqrt of squared distances has an infinite gradient at distance 0 (padding atoms, diagonal), so the forces are NaN from
    # the first step; the loop goes on. Seen: 'loss nan' in every line.
    Program(_case("schnet-forces", ("J01",), acceptable=("nan_loss",)), with_python("schnet_forces")),
    # torchmetrics AUROC is updated and computed in every step and never reset: each compute sorts all predictions so far.
    # Seen: printed ms/step rises steadily (about 60 to over 400 ms in 200 steps), py-spy shows an increasing share in
    # compute/argsort, RSS rises slowly. Loss and AUROC are fine.
    Program(_case("ecg-anomaly", ("E10",), acceptable=("E04", "H06")), with_python("ecg_anomaly")),
    # A forward hook appends the attention map of every training step to a list that is never cleared (about 0.35 MB per step,
    # 3-6 MB/s). Seen: RSS in /proc rises linearly; it/s and loss are normal. Ends by itself below 1.5 GiB after 2300 steps.
    Program(_case("vit-attention-study", ("H06", "E04"), acceptable=("H05",)), with_python("vit_attention_study")),
    # The optimizer is created before the head is replaced and the backbone is frozen: it holds only the old head, nothing is
    # trained. Seen: loss stays at ln(20)=3.0, top-1 stays at 6% over all epochs, '=> replacing head' is printed.
    Program(_case("finetune-birds", ("J03",)), with_python("finetune_birds")),
    # BertModel.from_pretrained returns the model in evaluation mode, and Lightning keeps it: dropout is off in the encoder.
    # Seen: Lightning's warning 'Found 84 module(s) in eval mode' and 'Modules in eval mode: 84'. The loss falls.
    Program(_case("lit-sentiment", ("J07", "all_in_eval")), with_python("lit_sentiment")),
    # Spawned workers without persistent_workers and 20 + 5 short batches per epoch: the start of four processes is more than
    # half of each epoch. Seen: new worker PIDs in ps every 1-2 s, main process in the loader's start or waiting for the
    # queue, val 1.2 s for 5 batches.
    Program(_case("gesture-h5", ("D06",), acceptable=("D01", "E07")), with_python("gesture_h5")),
    # The LSTM's hidden state is carried over without detach: backward fails in the second batch. Seen: traceback 'Trying to
    # backward through the graph a second time'.
    Program(_case("charlm-tbptt", ("second_backward",), acceptable=("exception",)), with_python("charlm_tbptt"), onset="end"),
    # The edge head is used only from epoch 3 on and DDP has no find_unused_parameters: the second iteration raises 'Expected
    # to have finished reduction in the prior iteration' on both ranks. Seen: tracebacks, torchrun's report of the failed
    # ranks.
    Program(
        _case(
            "seg-multitask-ddp",
            ("C09", "unused_params"),
            acceptable=("unused_idx", "exception", "child_failed", "elastic_exit", "G04"),
        ),
        with_torchrun("seg_multitask_ddp"),
        2,
        onset="end",
    ),
    # The loss is computed by model.module.p_losses: DDP's forward and its gradient reduction are bypassed. Seen: py-spy never
    # shows DDP's forward, no gloo traffic on the loopback, ranks drift apart in steps and have different |w| at the same step
    # in their prints.
    Program(_case("ddpm-ddp", ("C01",), acceptable=("C03",)), with_torchrun("ddpm_ddp"), 2),
    # Shards are split by rank and long utterances are filtered, so rank 1 has fewer batches: at the end of epoch 0 it waits
    # in barrier while rank 0 waits in the gradients' allreduce. Seen: output ends after it 35 of epoch 0, both ranks at 0%
    # CPU, py-spy: rank 1 in barrier, rank 0 in backward.
    Program(
        _case("asr-shards-ddp", ("C07",), acceptable=("G01", "C08")), with_torchrun("asr_shards_ddp"), 2, onset="last line"
    ),
    # The main process computes histograms and percentiles of all weights and gradients in every step, the other rank waits in
    # the next allreduce. Seen: rank 0 has twice the CPU use of rank 1, py-spy: rank 0 in RunLogger.watch, rank 1 waiting in
    # backward.
    Program(_case("tts-accelerate", ("F05",), acceptable=("F02", "F03")), with_torchrun("tts_accelerate"), 2),
    # Healthy: a GAN whose losses swing, with instance noise and a short evaluation every 200 iterations.
    Program(_case("healthy-dcgan-rings"), with_python("dcgan_rings")),
    # Healthy: PPO; the first printed returns are of cut-off episodes (so they fall in the first updates), later they rise
    # with swings. Rollout and update alternate.
    Program(_case("healthy-ppo-pendulum"), with_python("ppo_pendulum")),
    # Healthy: Hugging Face Trainer with gradient accumulation, warm-up from a tiny rate, evaluation every 50 steps; corpus is
    # built first.
    Program(_case("healthy-tinylm-trainer"), with_python("tinylm_trainer")),
    # Healthy: sweep, the loss starts anew in each trial, some trials have small rates and higher final losses.
    Program(_case("healthy-forecast-sweep"), with_python("forecast_sweep")),
    # Healthy: contrastive loss near log(2N-1) that falls slowly in the warm-up; rank 0 evaluates kNN for a moment every 3
    # epochs while rank 1 waits in a barrier.
    Program(_case("healthy-simclr-ddp"), with_torchrun("simclr_ddp"), 2),
    # Healthy: hand-written tensor parallelism, both ranks see the same batch by intention, no DDP, all-reduces inside forward
    # and backward, tiny rates in the warm-up.
    Program(_case("healthy-tensor-parallel-lm"), with_torchrun("tensor_parallel_lm"), 2),
)
