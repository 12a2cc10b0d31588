"""Eight faults, and ten healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict; causes are others than in ``hoarfrost``, ``graupel``,
``hail`` and ``sleet``, or come about in another way. Each comment says what goes wrong, and what would be seen from outside.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")
_ENDED = ("exception", "LOG", "G04", "child_failed", "elastic_exit")
"""What is said of a run that failed, without its cause."""

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: launching
    # torch.distributed.launch passes --local-rank, and the script knows --local_rank only. argparse says so.
    Program(_case("sonar-sweeps", ("A17",), acceptable=_ENDED), ("sh", "sonar_sweeps.sh"), 2, onset="end"),
    # ---- faults: DataParallel
    # The loss is asked of model.module, so DataParallel has no part in it; the second card idles.
    Program(
        _case("rock-types", ("B03",), acceptable=("A01", "A02", "B04", "B08"), outside_trace=False),
        with_python("rock_types"),
        2,
    ),
    # ---- faults: distributed training
    # DDP is an option that is off: only the printed loss is reduced, and two models are trained.
    Program(_case("tram-delays", ("C03",), acceptable=("C01",), outside_trace=False), with_torchrun("tram_delays"), 2),
    # ---- faults: data
    # Each batch is drawn by weights from all 900000 letters, without replacement. Stacks: choice, in the sampler.
    Program(_case("spam-letters", ("D01",)), with_python("spam_letters")),
    # ---- faults: balance between ranks
    # Only rank 0 writes the cache, each rank has its own folder, so rank 1 computes features anew. top shows it.
    Program(_case("wolf-howls", ("F01",), acceptable=("F02", "F03", "F05", "D01")), with_torchrun("wolf_howls"), 2),
    # ---- faults: hangs
    # Two threads take two locks in opposite orders, after 300 steps. Output ends; stacks: both wait for a lock.
    Program(_case("mosses", ("G01",)), with_python("mosses"), onset="last line"),
    # ---- faults: memory
    # A cache without a limit, whose keys are random: no crop is ever found in it. Memory grows all the time.
    Program(_case("postcards", ("H06",), acceptable=("E04", "H05")), with_python("postcards")),
    # ---- faults: numbers and learning
    # The rate is multiplied by 1.15 in each epoch, not by 0.85. The printed loss explodes, and is nan then.
    Program(_case("river-ice", ("J02", "J01", "nan_loss")), with_python("river_ice")),
    # ---- healthy: learning and work that look bad
    # Smoothed labels: the loss is flat, and far above 0.
    Program(_case("healthy-mushrooms"), with_python("mushrooms")),
    # L-BFGS: few steps, with many evaluations in each.
    Program(_case("healthy-poisson"), with_python("poisson")),
    # A Wasserstein GAN with two optimizers: the critic's loss falls below zero, as it should.
    Program(_case("healthy-snow-critic"), with_python("snow_critic")),
    # A curriculum: the loss rises with each new digit. Two optimizers.
    Program(_case("healthy-carry-digits"), with_python("carry_digits")),
    # REINFORCE: the return is noisy, and rises.
    Program(_case("healthy-sled-dogs"), with_python("sled_dogs")),
    # The evaluation takes longer than the training, on purpose.
    Program(_case("healthy-spell-checker"), with_python("spell_checker")),
    # A random search: a new model every 12 s.
    Program(_case("healthy-tea-leaves"), with_python("tea_leaves")),
    # An inference server, whose visitors come in waves.
    Program(_case("healthy-flower-names"), with_python("flower_names")),
    # It sleeps until the next delivery of data.
    Program(_case("healthy-buoys-hourly"), with_python("buoys_hourly")),
    # Memory grows until all pictures are decoded, and stays so.
    Program(_case("healthy-mountain-views"), with_python("mountain_views")),
)
