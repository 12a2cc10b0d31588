"""Programs about texts, graphs, tables, agents and physics, by students and small teams.

Their author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # Every __getitem__ opens the gzip archive and reads it from its start to the wanted line (about 10-20 ms for a
    # sample, 24 samples a batch). The one DataLoader worker is at 100% of a core, the trainer at 10-20%; py-spy shows
    # the main thread in the loader's queue.get and the worker in __getitem__ / gzip.
    Program(_case("river-gazette", ("D01",)), with_python("river_gazette")),
    # lru_cache(maxsize=None) on sampled neighbourhoods, keyed by the shuffled batch: never hit for training batches.
    # RSS grows by 4-10 MB/s, in proportion to the steps, about 1 MB for a step, without end.
    Program(_case("harbor-links", ("H06",), acceptable=("E04",)), with_python("harbor_links")),
    # Documents sorted by length and cut into contiguous halves: rank 1 has three times the tokens of rank 0 (printed:
    # 98k and 308k tokens; 2.8k and 7k tokens/s at the same s/step). CPU time of rank 0 is a third of rank 1's; it
    # waits in the all-reduce of backward.
    Program(_case("folio-lm", ("F03",), acceptable=("F02",)), with_torchrun("folio_lm"), 2),
    # The loss comes from model.module.elbo(): DDP.forward never runs, so nothing is reduced. The printed norm of the
    # weights differs between ranks from step 20 on (44.795, 44.735) and drifts; no forward of DDP in any stack.
    Program(_case("pebble-vae", ("C01",)), with_torchrun("pebble_vae"), 2),
    # The sign of the policy loss is wrong (the minus is missing): the return falls from -80 to -165 in a minute.
    Program(_case("lift-pilot", ("J06",)), with_python("lift_pilot")),
    # model.eval() for a baseline before trainer.fit, and Lightning keeps the mode: BatchNorm and Dropout are off during
    # training. The summary says Mode eval, and Lightning warns "Found 15 module(s) in eval mode".
    Program(_case("grain-moisture", ("J07", "all_in_eval")), with_python("grain_moisture")),
    # The scaler keeps all inputs ever seen in a list and turns all of it into an array in each step: 45 it/s at the start,
    # 12-14 it/s after a minute, and falling; py-spy: InputScaler.update. (The list grows, too: 2 MB/s at first.)
    Program(_case("duct-flow", ("E10",), acceptable=("H06", "E04")), with_python("duct_flow")),
    # Stage 2 trains all parameters and loads the optimizer's state of stage 1, which had only some of them:
    # ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group.
    Program(_case("herald-lm", ("optimizer_groups",), acceptable=("LOG", "exception")), with_python("herald_lm"), onset="end"),
    # Letters that are too long are left out by each rank for itself, and the ranks have unequal numbers of batches: one is
    # in the barrier after the epoch, the other in the all-reduce of backward. The output stops after about 20 s
    # (about 60 batches), and both ranks use no CPU.
    Program(
        _case("complaint-tags", ("C07",), acceptable=("C08", "G01")), with_torchrun("complaint_tags"), 2, onset="last line"
    ),
    # A shell loop starts two processes with LOCAL_RANK only: each is "rank 0 of 1", trains on all 60000 rows, and prints
    # the very same losses.
    Program(_case("bus-ridership", ("A18",), acceptable=("A01",)), ("bash", "bus_ridership.sh"), 2),
    # The codes of the categories are made anew for the validation rows (order of appearance), so they mean something else
    # there: train rmse 0.21 -> 0.06, validation rmse stays at 0.40-0.42, which is the spread of the target.
    Program(_case("flat-rents", ("J05",)), with_python("flat_rents")),
    # 8 steps in an epoch, two workers without persistent_workers, and each worker builds its tokenizer (1 s) on first use:
    # 2-2.5 s for an epoch, most of it start of workers. PIDs of the workers change every 2-3 s.
    Program(_case("helpdesk-bert", ("D06",), acceptable=("D01",)), with_python("helpdesk_bert")),
    # Healthy: PPO with very noisy returns (8 episodes: 12 to 23, negative at first), the mean of 500 rises from -4 to 16.
    Program(_case("honey-rover"), with_python("honey_rover")),
    # Healthy: GAN; the losses go up and down and settle at d_loss 2, the energy distance falls from 1.0 to 0.005.
    Program(_case("sensor-gan"), with_python("sensor_gan")),
    # Healthy: accumulation over 4 micro-batches with no_sync for the first 3, and rank 0 evaluates alone for about a
    # second every 60 updates while rank 1 waits in a barrier.
    Program(_case("sonnet-lm"), with_torchrun("sonnet_lm"), 2),
    # Healthy: the pretrained encoder is frozen and in evaluation mode on purpose, only the head is trained (val 0.06).
    Program(_case("solvent-head"), with_python("solvent_head")),
    # Healthy: curriculum; the horizon doubles in each announced stage, with the time of a step; test rollouts now and then.
    Program(_case("wave-rollout"), with_python("wave_rollout")),
    # Healthy: a sweep of trials of 12 s, one process after the other; losses start anew, bad trials are pruned.
    Program(_case("bread-sweep"), with_python("bread_sweep")),
)
