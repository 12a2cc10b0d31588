"""Ten faults, the first part of a set; no healthy program is in it yet.

Their author knew only the ids and titles of the rules, and no verdict; causes are others than in ``hoarfrost``, ``graupel``,
``hail`` and ``sleet``, or come about in another way. Each comment says what goes wrong, and what would be seen from outside.
"""

from __future__ import annotations

from functools import partial

from _stranger_programs import Program, with_python, with_torchrun
from _strangers import Case

_case = partial(Case, half="set aside")
_ENDED = ("exception", "LOG", "G04", "child_failed", "elastic_exit")
"""What is said of a run that failed, without its cause."""

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: launching
    # torch.distributed.launch passes --local-rank, and the script knows --local_rank only. argparse says so.
    Program(_case("sonar-sweeps", ("A17",), acceptable=_ENDED), ("sh", "sonar_sweeps.sh"), 2, onset="end"),
    # ---- faults: data
    # Each sheet is read from a compressed archive, from its beginning on. Stacks: gzip, in __getitem__.
    Program(_case("herbarium-tar", ("D01",)), with_python("herbarium_tar")),
    # ---- faults: time
    # The gradient of a table of 150000 words is averaged as a whole, for 512 rows. Stacks: all_reduce.
    Program(_case("dense-words", ("E06", "E09"), acceptable=("C16", "E11")), with_torchrun("dense_words"), 2),
    # ---- faults: balance between ranks
    # Only rank 0 writes the cache, each rank has its own folder, so rank 1 computes features anew. top shows it.
    Program(_case("cold-cache", ("F01",), acceptable=("F02", "F03", "F05", "D01")), with_torchrun("cold_cache"), 2),
    # ---- faults: hangs
    # Each rank meets the other in a file named after its own pid. Stacks: init_process_group.
    Program(_case("per-pid-rendezvous", ("G03",), acceptable=("G01", "G02")), with_python("per_pid_rendezvous"), 2),
    # Two threads take two locks in opposite orders, after 300 steps. Output ends; stacks: both wait for a lock.
    Program(_case("moss-locks", ("G01",)), with_python("moss_locks"), onset="last line"),
    # ---- faults: memory
    # A cache without a limit, whose keys are random: no crop is ever found in it. Memory grows all the time.
    Program(_case("postcards-cache", ("H06",), acceptable=("E04", "H05")), with_python("postcards_cache")),
    # ---- faults: numbers and learning
    # The root of a distance of 0, of a pair that is twice the same, has an infinite gradient. Printed: nan, after step 400.
    Program(_case("twin-songs", ("J01", "nan_loss")), with_python("twin_songs")),
    # Gradients are set to zero between the backward and the step. The printed loss does not move.
    Program(_case("zeroes-then-steps", ("J03",)), with_python("zeroes_then_steps")),
    # The validation is divided by 255 twice. Printed: its accuracy stays near that of guessing.
    Program(_case("unscaled-validation", ("J05",)), with_python("unscaled_validation")),
)
