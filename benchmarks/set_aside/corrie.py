"""Twelve faults of research and industry code, and six healthy programs that look suspicious.

Their author knew only the ids and titles of the rules, and said what a skilled person could see of each from outside.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # DataLoader without workers; __getitem__ computes augmentation and log-mel features in Python/numpy loops, and rebuilds
    # the mel filter bank for each clip, so most of each step is the loader. py-spy: main thread is nearly always in
    # log_mel/mel_filters below DataLoader.__next__. Output: only slow epochs; the loss falls.
    Program(_case("voice-commands", ("D01",), acceptable=("E02",)), with_python("voice_commands")),
    # Evaluation with a sliding window of stride 6 over the whole validation text after every 25 steps: about 60% of the time
    # goes into estimate_bpc (plus sampling). Output: '--- iter N: val bpc .. [3.1s]' against 25 steps of 80 ms; py-spy:
    # estimate_bpc.
    Program(_case("char-lm-samples", ("E07",), acceptable=("B13",)), with_python("char_lm_samples")),
    # Prioritized replay in Python lists: max(self.priorities) for each of 32 pushes in an iteration and np.array(priorities)
    # in each sample are O(size of the buffer), which grows to 1M; fps falls steadily. Output: the fps column; py-spy: push
    # and sample, growing share. The memory grows with the replay buffer too (intended).
    Program(_case("per-dqn-gridworld", ("E10",), acceptable=("D01", "E02")), with_python("per_dqn_gridworld")),
    # Lightning: training_step appends loss and logits (not detached) to self.training_step_outputs, which is never cleared at
    # the end of the epoch. RSS grows by about 1 MB in each step, steadily over epochs (/proc, top); nothing in the output.
    Program(_case("lit-lung-masks", ("H06", "E04"), acceptable=("H05", "E10")), with_python("lit_lung_masks")),
    # log() of bars whose volume is 0 (a few halted days) gives -inf/NaN features; the first batch that has one makes the
    # loss, then all weights NaN. Output: huber nan within the first lines, and on and on.
    Program(_case("volume-forecast", ("J01",), acceptable=("J03",)), with_python("volume_forecast")),
    # The vocabulary is made of lower-cased text, but the (upper-case) tickets are encoded without lower(): every word becomes
    # [UNK], so the inputs say nothing. Output: the loss stays at ln 5 = 1.609, eval_accuracy about 0.2.
    Program(_case("support-ticket-bert", ("J03",)), with_python("support_ticket_bert")),
    # The images are generated class after class, and the train DataLoader has no shuffle: whole stretches of batches have one
    # class only. Output: the loss falls to 0 within each class and jumps at its borders, in every epoch; the val acc stays at
    # 12.5% (the class seen last) although the loss is small within stretches.
    Program(_case("galaxy-morphology", ("J04",), acceptable=("J05", "J03")), with_python("galaxy_morphology")),
    # accuracy() calls model.eval() before the training and after each epoch, and nothing calls model.train(): dropout is off
    # and BatchNorm uses its initial running statistics in the whole training. Output looks like a good training; only
    # model.training (or the code) shows it.
    Program(_case("histology-notebook", ("J07",), outside_trace=False), with_python("histology_notebook")),
    # DDP, but the DataLoader has shuffle=True and no DistributedSampler, with the same seed on all ranks: both ranks read the
    # same batches of the whole set. Output: both ranks print the same losses, and steps per epoch = sequences/batch of one
    # rank (253 = 4062/16).
    Program(_case("lm-pretrain-ddp", ("C05",)), with_torchrun("lm_pretrain_ddp"), 2),
    # 7 shards over 2 ranks: rank 0 has 4, rank 1 has 3. Rank 1 finishes the first epoch and enters dist.barrier, while rank 0
    # goes on with gradients' all_reduce: both wait (gloo limit 30 min). Output ends at about batch 560 of 750, after about 20
    # s; py-spy: rank 0 in backward, rank 1 in barrier; no CPU time. The ranks print their shards.
    Program(
        _case("shard-recsys", ("C07",), acceptable=("G01", "C08", "F03")), with_torchrun("shard_recsys"), 2, onset="last line"
    ),
    # The documents are sorted by length and split in two contiguous halves: rank 0 has all short ones, rank 1 all long ones.
    # Rank 1 uses about 4 times the CPU time, rank 0 waits in backward (all_reduce). top: CPU of the ranks; py-spy: rank 0 in
    # backward most of the time.
    Program(_case("doc-ranker-ddp", ("F03", "F02")), with_torchrun("doc_ranker_ddp"), 2),
    # Every 30 iterations rank 0 writes a gzip-compressed snapshot (model, EMA, Adam state) for longer than 30 iterations
    # last, and rank 1 waits in dist.barrier. Output: 'elapsed' jumps by 2-3 s after each 30th iteration; py-spy: rank 0 in
    # gzip/zlib, rank 1 in barrier.
    Program(_case("weather-nowcast", ("F05",), acceptable=("E07", "B13")), with_torchrun("weather_nowcast"), 2),
    # healthy: PPO, return noisy and wandering at first, vectorised numpy physics; most of the time in the updates.
    Program(_case("healthy-ppo-lander"), with_python("ppo_lander")),
    # healthy: WGAN-GP; the losses are negative and wander, as they do; four critic steps for each generator step.
    Program(_case("healthy-wgan-glyphs"), with_python("wgan_glyphs")),
    # healthy: data rendered first, then SimCLR with warm-up; the loss starts near its chance level and falls slowly.
    Program(_case("healthy-simclr-textures"), with_python("simclr_textures")),
    # healthy: grid x folds in one process: the loss restarts with each fold, trials with a low rate learn slowly.
    Program(_case("healthy-gru-sweep"), with_python("gru_sweep")),
    # healthy: tensor parallelism by hand: both ranks see the same batch on purpose, no DDP, all_reduce in forward and
    # backward; plateau during the warm-up, then it learns.
    Program(_case("healthy-tp-translation"), with_torchrun("tp_translation"), 2),
    # healthy: Accelerate with gradient accumulation, warm-up, periodic evaluation on both ranks (about 10% of the time), rank
    # 0 saves a small file.
    Program(_case("healthy-accel-seq-tagger"), with_torchrun("accel_seq_tagger"), 2),
)
