"""Sixteen faults, which all show from outside, and twelve healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict; causes are others than in ``graupel``, ``sleet`` and
``hail``, or come about in another way. Each comment says what goes wrong, and what somebody with ps, top, py-spy, /proc and the
printed output would see of it.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")
_ENDED = ("exception", "LOG", "G04", "child_failed", "elastic_exit", "gloo_peer", "cpp_terminate")
"""What is said of a run that failed, without its cause."""

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: launching and devices
    # A shell sets Slurm's variables for both processes, and the script reads WORLD_SIZE. Both print "rank 0 of 1", and then the
    # same lines: each trains on all of the data, on a card of its own.
    Program(
        _case("tide-gauges", ("A18",), acceptable=("A01", "C03")),
        ("bash", "tide_gauges.sh"),
        2,
    ),
    # The cards are counted by nvidia-smi, which the container does not have, so one process starts; the second card idles.
    Program(
        _case("orchid-hybrids", ("A02",), acceptable=("A01", "A03")),
        ("bash", "orchid_hybrids.sh"),
        2,
    ),
    # ---- faults: DataParallel
    # The default of --gpu_ids is the first card, and DataParallel gets no other. Printed: the options; the second card idles.
    Program(
        _case("monet-rooms", ("B12",), acceptable=("A01", "A02", "A11", "A16")),
        with_python("monet_rooms"),
        2,
    ),
    # ---- faults: distributed training
    # A head takes no part in the loss of some batches, so DDP raises an error; torchrun starts both ranks again, and again.
    Program(
        _case("reef-survey", ("C09",), acceptable=_ENDED),
        ("bash", "reef_survey.sh"),
        2,
    ),
    # Each rank reads all shards in the same order. Both print the names of the same files, and the same losses.
    Program(
        _case("lullaby-shards", ("C05",)),
        with_torchrun("lullaby_shards"),
        2,
    ),
    # ---- faults: data
    # A shell, gzip and tail are started for each clip. ps: short-lived children; stacks: subprocess, in decode.
    Program(
        _case("radio-plays", ("D01",)),
        with_python("radio_plays"),
    ),
    # Four workers are bound to core 0, as their numbers are divided by the cores of a server. taskset -p shows it.
    Program(
        _case("seal-calls", ("D03",), acceptable=("D01", "D02")),
        with_python("seal_calls"),
    ),
    # ---- faults: time
    # Anomaly detection stays on, after a NaN some months ago. torch warns of it; stacks: traceback, in each operation.
    Program(
        _case("ballad-prosody", ("E05",)),
        with_python("ballad_prosody"),
    ),
    # The state holds 600 images, and the loop packs it with the best compression every 60 batches. Stacks: gzip.
    Program(
        _case("kelp-forest", ("E07",)),
        with_python("kelp_forest"),
    ),
    # Each epoch wraps the transforms of all epochs before it. The epochs that are printed take longer and longer.
    Program(
        _case("stamp-values", ("E10",), acceptable=("D01",)),
        with_python("stamp_values"),
    ),
    # ---- faults: balance between ranks
    # Rank 0 evaluates, six views of each slide, for longer than the steps in between; rank 1 waits in broadcast.
    Program(
        _case("pollen-counts", ("F05", "B13"), acceptable=("E07", "F02", "F03")),
        with_python("pollen_counts"),
        2,
    ),
    # ---- faults: hangs
    # The loop that starts the ranks has no "&": rank 0 waits for a rank that starts after it. Stacks: init_process_group.
    Program(
        _case("violin-makers", ("G03",), acceptable=("G01", "G02", "A02")),
        ("sh", "violin_makers.sh"),
        2,
    ),
    # ---- faults: memory, and the jobs of others
    # "cARD=1" is no "CARD=1": the jobs for two sites are on the first card, and the second idles.
    Program(
        _case("lichen-growth", ("H03",), acceptable=("A07",)),
        ("bash", "lichen_growth.sh"),
        2,
    ),
    # ---- faults: crashes that come again and again
    # The checkpoint is written with other keys than it is read with. A keeper in Perl starts it again; a KeyError each time.
    Program(
        _case("bell-tones", ("exception", ANY), "optimizer", _ENDED),
        ("perl", "bell_tones.pl"),
    ),
    # ---- faults: numbers and learning
    # The logarithm of a density that is 0 for a rare label in degrees. Printed: nll=+nan, from then on.
    Program(
        _case("rune-reader", ("J01", "nan_loss")),
        with_python("rune_reader"),
    ),
    # It begins with what it has learned from drivers, and the advantage has the wrong sign. The printed reward falls.
    Program(
        _case("ice-road", ("J06",)),
        with_python("ice_road"),
    ),
    # ---- healthy: learning that looks bad
    # Diffusion: the loss is flat and noisy soon, as it should be.
    Program(_case("healthy-frost-flowers"), with_torchrun("frost_flowers"), 2),
    # The weight of a second term grows, so the sum grows.
    Program(_case("healthy-snowpack-vae"), with_python("snowpack_vae")),
    # Warm restarts of the rate: the loss jumps every 200 steps. It prints in German.
    Program(_case("healthy-skisprung"), with_python("skisprung")),
    # Weights are pruned and rewound every 250 steps, so each round begins with the loss of guessing.
    Program(_case("healthy-lottery-tickets"), with_python("lottery_tickets")),
    # A range test lets the loss explode on purpose, and training begins anew.
    Program(_case("healthy-range-test"), with_python("range_test")),
    # A queue of negatives fills, and the loss rises with it.
    Program(_case("healthy-queue-of-keys"), with_python("queue_of_keys")),
    # Clients in turns, each with other classes: the loss jumps at each turn.
    Program(_case("healthy-clinics-in-turn"), with_python("clinics_in_turn")),
    # ---- healthy: memory, helpers and files that look wrong
    # Memory grows until a ring of pictures is full.
    Program(_case("healthy-greenhouse-ring"), with_python("greenhouse_ring")),
    # Helpers are replaced after 40 tasks each: processes come and go.
    Program(_case("healthy-renews-helpers"), with_python("renews_helpers")),
    # Ranks with unequal numbers of batches, under torch's Join.
    Program(_case("healthy-unequal-hospitals"), with_torchrun("unequal_hospitals"), 2),
    # ---- healthy: jobs that wait for each other
    # Three jobs for one card: two wait for a lock, as intended.
    Program(_case("healthy-one-after-the-other"), ("bash", "one_after_the_other.sh")),
    # An evaluator sleeps until there is a new checkpoint.
    Program(_case("healthy-watches-checkpoints"), ("bash", "watches_checkpoints.sh")),
)
