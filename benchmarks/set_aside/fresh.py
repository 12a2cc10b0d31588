"""Programs of an author who knew the rules by their titles only, set aside: launchers, frameworks and loops of many shapes."""

from __future__ import annotations

import sys
from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")
_LAUNCH = (sys.executable, "-m", "torch.distributed.launch", "--standalone", "--nproc_per_node=2")

PROGRAMS: tuple[Program, ...] = (
    # ---- healthy: several ranks
    # The script starts its own ranks, one per device.
    Program(_case("healthy-spawned-vit"), with_python("spawned_vit"), 2),
    # The old launcher, and a log of JSON lines.
    Program(_case("healthy-tabular-launch"), (*_LAUNCH, "tabular_launch.py"), 2),
    # Each rank compares its pairs with those of all ranks.
    Program(_case("healthy-two-towers"), with_torchrun("two_towers"), 2),
    # Fabric's loop, and a forecast.
    Program(_case("healthy-fabric-loop"), with_torchrun("fabric_loop"), 2),
    # Three micro-batches for each update, and gradients that are averaged without a wrapper.
    Program(_case("healthy-speedrun-lm"), with_torchrun("speedrun_lm"), 2),
    # The context grows in phases, and steps get slower with it.
    Program(_case("healthy-grows-its-context"), with_torchrun("grows_its_context"), 2),
    # Four micro-batches travel forward and back between two stages.
    Program(_case("healthy-micro-pipe"), with_torchrun("micro_pipe"), 2),
    # Workers push gradients into a queue, whose server mostly sleeps.
    Program(_case("healthy-queue-server"), with_python("queue_server"), 2),
    # ---- healthy: several jobs on one machine
    # Two cards train silos of unequal size, and a coordinator without a card averages.
    Program(_case("healthy-cross-silo"), with_python("cross_silo"), 2),
    # Half of an archive on each card; nothing is trained.
    Program(_case("healthy-embeds-archive"), ("bash", "embeds_archive.sh"), 2),
    # Two lanes of three trials each.
    Program(_case("healthy-grid-of-lrs"), ("bash", "grid_of_lrs.sh", "700"), 2),
    # Two jobs of different length; the second card is free again when the short one is done.
    Program(_case("healthy-nohup-pair"), ("bash", "nohup_pair.sh"), 2),
    # ---- healthy: one process
    # Attention and a decoder that is taught less and less; its log is a table.
    Program(_case("healthy-reverses-strings"), with_python("reverses_strings", "--hidden", "80")),
    # A codebook follows by averages; dead codes start anew.
    Program(_case("healthy-vq-tiles"), with_python("vq_tiles")),
    # Samples are drawn from averaged weights now and then.
    Program(_case("healthy-flow-moons"), with_python("flow_moons")),
    # Neighbours are sampled from lists in tensors.
    Program(_case("healthy-cites-graph"), with_python("cites_graph")),
    # A notebook as a script: adapters on a frozen encoder.
    Program(_case("healthy-lora-cells"), with_python("lora_cells")),
    # Checkpoints are written by a thread.
    Program(_case("healthy-writes-behind"), with_python("writes_behind")),
    # Trials begin anew, and some are bad on purpose.
    Program(_case("healthy-halves-the-field"), with_python("halves_the_field")),
    # The input is attacked before each step.
    Program(_case("healthy-pgd-inner"), with_python("pgd_inner")),
    # One of two losses is meant to rise.
    Program(_case("healthy-gradient-reversal"), with_python("gradient_reversal", "--seed", "2")),
    # The tutorial's word model: a rate of 20, and a table of bars.
    Program(_case("healthy-stateful-words"), with_python("stateful_words")),
    # The rate jumps up after each cycle.
    Program(_case("healthy-snapshot-cycles"), with_python("snapshot_cycles")),
    # ---- healthy: what is no training
    # A finished model is scored on subsets, some of which are harder.
    Program(_case("healthy-bootstraps-scores"), with_python("bootstraps_scores")),
    # A server whose requests come in waves.
    Program(_case("healthy-asks-by-socket"), with_python("asks_by_socket")),
    # ---- healthy: reinforcement learning
    # Four processes step games, and the learner waits for the slowest.
    Program(_case("healthy-gridworld-a2c"), with_python("gridworld_a2c")),
    # A replay buffer, and physics in the process that trains.
    Program(_case("healthy-sac-reacher"), with_python("sac_reacher")),
    # ---- faults: launching and devices
    # Settings of a server with 64 cores: 32 threads for each rank.
    Program(
        _case(
            "threads-for-a-server",
            (ANY,),
            r"more (CPU )?threads than|too many (CPU )?threads|oversubscri|\d+ (CPU )?threads (for|on|share|compete)",
            ("D02", "F04"),
        ),
        with_torchrun("threads_for_a_server"),
        2,
    ),
    # The wheel is for CPUs.
    Program(
        _case("cpu-wheel", ("not_compiled_cuda", "A12"), acceptable=("exception", "LOG")), with_python("cpu_wheel"), onset="end"
    ),
    # ---- faults: ranks
    # Sorted documents, dealt out in halves: rank 1 has all the long ones.
    Program(_case("long-documents", ("F02", "F03"), acceptable=("F05",)), with_torchrun("long_documents"), 2),
    # Rank 1 gets SIGSTOP, and rank 0 waits.
    Program(
        _case("paused-rank", ("G01",), r"SIGSTOP|SIGCONT|is stopped|stopped by|suspend|paused|stopped process"),
        ("bash", "paused_rank.sh"),
        2,
        onset="last line",
    ),
    # Each rank stops early by its own validation data.
    Program(
        _case("patience-of-its-own", ("C08",), acceptable=("G01", "C07", "G04")),
        with_torchrun("patience_of_its_own"),
        2,
        onset="last line",
    ),
    # new_group is called by rank 0 only.
    Program(
        _case("group-for-logging", ("C08",), acceptable=("G01", "G02")),
        with_torchrun("group_for_logging"),
        2,
        onset="last line",
    ),
    # Nine files for two ranks: rank 1 has one less, and leaves with exit code 0.
    Program(
        _case("no-files-for-me", ("C07", "G04"), acceptable=("gloo_peer", "exception", "C08", "G01", "LOG")),
        with_torchrun("no_files_for_me"),
        2,
        onset="end",
    ),
    # A shard of rank 1 was never copied; rank 0 only loses its connection.
    Program(
        _case("shard-missing", ("exception",), "FileNotFound|no such file|r1_012", ("G04", "gloo_peer", "LOG")),
        ("bash", "shard_missing.sh"),
        2,
        onset="end",
    ),
    # The loss comes from a method of the wrapped model: no gradient is averaged.
    Program(_case("calls-the-module", ("C01",), acceptable=("C03",)), with_torchrun("calls_the_module"), 2),
    # Both ranks read one stream from its beginning.
    Program(_case("stream-for-everyone", ("C05",)), with_torchrun("stream_for_everyone"), 2),
    # ---- faults: data, checkpoints and time
    # The workers wait for one lock.
    Program(_case("one-lock-for-all", ("D01",), acceptable=("D07",)), with_python("one_lock_for_all", "-j", "2")),
    # The volume of the checkpoints is full.
    Program(
        _case(
            "full-disk", (ANY,), r"disk (is|was) full|full disk|no space|space left", ("exception", "checkpoint_write", "LOG")
        ),
        with_python("full_disk"),
        onset="end",
    ),
    # ---- faults: learning
    # The learning rate of 64 GPUs, on one.
    Program(_case("linear-scaling", ("J01", "J02", "nan_loss")), with_python("linear_scaling")),
)
