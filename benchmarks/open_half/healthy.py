"""Healthy programs of many kinds, open half: each is in order, however uneven, idle or odd it may look."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- parallelism written by hand
    # Columns and rows of a layer on two ranks, which read the same batch on purpose.
    Program(_case("healthy-split-mlp"), with_torchrun("split_mlp"), 2),
    # Each rank has half of each sequence, and the same weights and batch.
    Program(_case("healthy-halves-of-a-sequence"), with_torchrun("halves_of_a_sequence"), 2),
    # Tokens travel to the rank with their expert; now one expert is popular, now the other.
    Program(_case("healthy-experts-apart"), with_torchrun("experts_apart"), 2),
    # Each rank updates half of the parameters.
    Program(_case("healthy-shards-adam"), with_torchrun("shards_adam"), 2),
    # The second stage of a pipeline has three times as many layers.
    Program(_case("healthy-lopsided-stages"), with_torchrun("lopsided_stages"), 2),
    # The ranks differ for a hundred steps, and then average what they have learned.
    Program(_case("healthy-diloco"), with_torchrun("diloco"), 2),
    # Two clients with unequal data: the one with less waits at the end of each round.
    Program(_case("healthy-fedavg"), with_python("fedavg"), 2),
    # Two processes change one model in shared memory, without locks.
    Program(_case("healthy-hogwild"), with_python("hogwild"), 2),
    # ---- under wrappers and frameworks
    # One all-reduce for eight micro-batches, whose sequences have any length.
    Program(_case("healthy-accumulates-ddp"), with_torchrun("accumulates_ddp"), 2),
    # The backbone is frozen, and only adapters are trained.
    Program(_case("healthy-adapters-only"), with_torchrun("adapters_only"), 2),
    Program(_case("healthy-accelerate-accum"), with_torchrun("accelerate_accum"), 2),
    Program(_case("healthy-lit-tagger"), with_python("lit_tagger"), 2),
    Program(_case("healthy-hf-small"), with_python("hf_small")),
    # ---- one process
    # Samples are drawn from the averaged weights now and then.
    Program(_case("healthy-ddpm-ema"), with_python("ddpm_ema", "--timesteps", "100")),
    # Activation checkpoints, accumulation, and a rate that first rises.
    Program(_case("healthy-lm-ckpt"), with_python("lm_ckpt", "--layers", "3", "--warmup", "20")),
    # Sequences get longer while the batch shrinks.
    Program(_case("healthy-short-to-long"), with_python("short_to_long")),
    # Without negatives; the loss is below zero.
    Program(_case("healthy-simsiam"), with_python("simsiam")),
    # One graph is the only batch, and its loss goes to nothing.
    Program(_case("healthy-overfits-graph"), with_python("overfits_graph")),
    # L-BFGS computes the loss many times for one step.
    Program(_case("healthy-pinn-lbfgs"), with_python("pinn_lbfgs")),
    # A large table with sparse gradients, and loader workers.
    Program(_case("healthy-sparse-vectors"), with_python("sparse_vectors")),
    # The processor unpacks for a while before anything is trained.
    Program(_case("healthy-fetches-first"), with_python("fetches_first", "bs=64")),
    # ---- reinforcement learning
    # Environments step in processes of their own, between short updates.
    Program(_case("healthy-ppo-vec"), with_python("ppo_vec")),
    # Long games on the processor, then a short burst of updates.
    Program(_case("healthy-selfplay"), with_python("selfplay")),
    # ---- several jobs on one machine, and searches
    # A teacher answers on the second card.
    Program(_case("healthy-distil-two"), with_python("distil_two", "--temp", "3"), 2),
    # One job trains, and the other evaluates each new checkpoint and waits for the next.
    Program(_case("healthy-nightly"), ("bash", "nightly.sh"), 2),
    # The folds of a cross-validation, one process after the other.
    Program(_case("healthy-kfold"), ("sh", "kfold.sh")),
    # A population is trained in turns by a pool of two.
    Program(_case("healthy-population"), with_python("population")),
    # ---- what is no training
    # Scores a frozen model.
    Program(_case("healthy-evaluates-tasks"), with_python("evaluates_tasks", "--limit", "60")),
    # All cores prepare data, and the cards have nothing to do.
    Program(_case("healthy-packs-corpus"), with_python("packs_corpus"), 2),
    # k-means and lookups without autograd.
    Program(_case("healthy-builds-index"), with_python("builds_index", "256")),
    # Two halves of an inference engine, which mostly wait for requests.
    Program(_case("healthy-engine-of-two"), with_python("engine_of_two"), 2),
    # A kernel: cells, one of which fails, and the pauses of somebody who types.
    Program(_case("healthy-kernel-session"), with_python("kernel_session")),
)
