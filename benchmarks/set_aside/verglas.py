"""Twenty faults of the kind that people meet on servers with several GPUs, and eleven healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. Frequent mistakes are frequent here, and two thirds of
the programs have two ranks or two cards. Each comment says what goes wrong, and what would be seen of it from outside: by ps,
top, py-spy and /proc, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")
_ENDED = ("exception", "LOG", "G04", "child_failed", "elastic_exit", "gloo_peer", "cpp_terminate")
"""What is said of a run that failed, without its cause."""

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: launching and devices
    # A script for one card under torchrun: it never joins a process group. Each rank prints all epochs, with its own losses.
    Program(_case("otter-tracks", ("A18", "C03"), acceptable=("C05",)), ("bash", "otter_tracks.sh"), 2),
    # Made for torchrun, started by python: "Not using distributed mode" is its first line; the second card idles.
    Program(_case("barn-owls", ("A01",), acceptable=("A02", "A11", "A16")), with_python("barn_owls"), 2),
    # Two ranks started by hand, each with LOCAL_RANK=0 as on two machines: both are on the first card; the second idles.
    Program(_case("canal-locks", ("A07",), acceptable=("A02", "A08")), ("bash", "canal_locks.sh"), 2),
    # ---- faults: distributed training
    # Long lessons are dropped after the division: the ranks have unequal numbers of batches. One waits in a barrier, the other
    # in backward; both printed how many lessons they have.
    Program(
        _case("harp-transcripts", ("C07", "C08"), acceptable=("G01",)),
        with_torchrun("harp_transcripts"),
        2,
        onset="last line",
    ),
    # shuffle=True and no DistributedSampler, with one seed: both ranks print all 160 steps, and the same losses.
    Program(
        _case("meadow-plots", ("C05",)),
        with_python("meadow_plots", "200", "10", "--batch_size", "32"),
        2,
    ),
    # Accelerate prepares the optimizer and the loaders, and not the model, so that no gradient is averaged.
    Program(
        _case("quilt-squares", ("C03",), acceptable=("C01",), outside_trace=False),
        with_torchrun("quilt_squares"),
        2,
    ),
    # ---- faults: data and cores
    # Pictures are drawn and blurred in Python, in the main process. Printed: data time, nearly all of the time.
    Program(_case("fern-fronds", ("D01",)), with_python("fern_fronds")),
    # Each item is found by reading the file from its start. Stacks: __getitem__, on both ranks.
    Program(_case("toll-receipts", ("D01",), acceptable=("D07",)), with_torchrun("toll_receipts"), 2),
    # Ten threads for each of two ranks, as the request from Slurm says, on two cores. top: their threads, which spin.
    Program(_case("brick-kilns", ("D02",), acceptable=("D03", "F04")), ("bash", "brick_kilns.sh"), 2),
    # OMP_PROC_BIND binds the main thread of each rank to the first core. taskset -p; top: 50 % each.
    Program(_case("reindeer-herds", ("D03",), acceptable=("D02",)), ("sh", "reindeer_herds.sh"), 2),
    # Spawned workers, which import torch anew in each epoch of 20 batches. ps: young children; top: main process idles.
    Program(_case("mural-fragments", ("D06",), acceptable=("D01", "E07")), with_python("mural_fragments")),
    # ---- faults: time
    # The Trainer evaluates all 4000 orders after every 20 steps. Stacks: evaluate, most of the time.
    Program(_case("bakery-orders", ("E07",), acceptable=("B13",)), with_python("bakery_orders")),
    # Each sample weighs the whole memory, in Python, and the memory grows. The printed steps/s fall.
    Program(_case("parrot-tricks", ("E10",), acceptable=("H06",)), with_python("parrot_tricks")),
    # ---- faults: balance between ranks
    # Files are dealt in turns, and every second one is compressed: rank 1 reads those. Stacks: json and lzma, on rank 1.
    Program(_case("coral-cores", ("F01",), acceptable=("F02", "F03", "F05", "D01")), with_torchrun("coral_cores"), 2),
    # Lines are sorted by length before they are divided: rank 1 has all long ones. top: rank 0 waits.
    Program(_case("verse-meter", ("F03", "F02"), acceptable=("F05",)), with_python("verse_meter"), 2),
    # ---- faults: hangs and lost ranks
    # A child is joined before its result is taken from the queue: once the result exceeds a pipe, both wait. Stacks: join.
    Program(_case("cipher-wheels", ("G01",)), with_python("cipher_wheels"), onset="last line"),
    # A KeyError ends rank 1's main thread; a thread that is no daemon keeps its process, and rank 0 waits in backward.
    Program(
        _case("lighthouse-keepers", ("exception", "G04"), acceptable=("G01", "C08", *_ENDED)),
        with_torchrun("lighthouse_keepers"),
        2,
        onset="last line",
    ),
    # ---- faults: memory
    # Outputs with their graphs are kept for the end of the epoch, and never cleared. Memory grows all the time.
    Program(_case("loom-weaves", ("H06", "E04"), acceptable=("H05",)), with_python("loom_weaves")),
    # ---- faults: numbers and learning
    # 64 micro-batches make an update, and with two ranks an epoch has 50: none ever happens. The printed loss is constant.
    Program(_case("lantern-festivals", ("J03",)), with_torchrun("lantern_festivals"), 2),
    # Targets in hundreds, a squared error, and a rate for targets near one: the printed loss explodes at once, and is nan.
    Program(_case("trout-ladders", ("J01", "J02", "nan_loss")), with_python("trout_ladders")),
    # ---- healthy: reinforcement, and losses that look bad
    # Rank 1 plays at the pace of a camera, and rank 0 learns: each waits for the other, as designed.
    Program(_case("healthy-marble-runs"), with_torchrun("marble_runs"), 2),
    # PPO: the return is noisy, and the loss of the values grows with it.
    Program(_case("healthy-acrobats-ppo"), with_torchrun("acrobats_ppo"), 2),
    # An energy-based model: its loss hovers about zero, and says nothing.
    Program(_case("healthy-cloud-chamber"), with_python("cloud_chamber")),
    # ---- healthy: work that looks wasteful
    # Gradient checkpointing, accumulation and a warm-up.
    Program(_case("healthy-dune-ripples"), with_python("dune_ripples")),
    # The evaluation asks 120 times, on purpose, and takes longer than the training.
    Program(_case("healthy-bell-ringers"), with_python("bell_ringers")),
    # It learns from a feed of eight readings a second, and keeps up with it.
    Program(_case("healthy-rain-radar-feed"), with_python("rain_radar_feed")),
    # Three tasks take turns, so find_unused_parameters is right.
    Program(_case("healthy-cello-bows"), with_torchrun("cello_bows"), 2),
    # ---- healthy: several processes
    # Eight micro-batches under no_sync make an update.
    Program(_case("healthy-sluice-keepers"), with_torchrun("sluice_keepers"), 2),
    # Lightning starts the second rank; a cyclic rate, then averaged weights.
    Program(_case("healthy-peat-smoke"), with_python("peat_smoke"), 2),
    # Embeddings of both ranks are gathered, with a backward of its own.
    Program(_case("healthy-ring-spinning"), with_python("ring_spinning"), 2),
    # A sweep: a queue of short jobs for each of two cards.
    Program(_case("healthy-solder-joints"), ("bash", "solder_joints.sh"), 2),
)
