"""Twenty faults of which people have reported many a time, and fourteen healthy programs that look odd.

Their author knew only the ids and titles of the rules. Each comment names the cause, and what somebody with ps, top, py-spy and
the printed output would see of it. What leaves no such trace has ``outside_trace=False``. The faults are those of threads in
forums and issue trackers (PyTorch, Lightning, Accelerate, Transformers, Keras, h5py), written anew.
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
    # Settings of another machine: WORLD_SIZE is 4, and two processes start. Each prints "of 4"; stacks: init_process_group.
    Program(
        _case("wind-farm", ("G03",), acceptable=("G01", "G02", "G06", "A02")),
        ("bash", "wind_farm.sh"),
        2,
    ),
    # Threads for 64 cores, on two ranks. top shows two times 32 threads.
    Program(
        _case("power-flow", ("D02",), acceptable=("D03",)),
        with_torchrun("power_flow"),
        2,
    ),
    # ---- faults: communication
    # Each rank stops by its own validation loss: one is in the last barrier, the other in a backward; one prints that it stops.
    Program(
        _case("small-commands", ("C08", "C07"), acceptable=("G01", "G04")),
        with_torchrun("small_commands"),
        2,
        onset="last line",
    ),
    # The loss comes from model.module: gradients are never averaged.
    Program(
        _case("tremor", ("C01",), acceptable=("C03",), outside_trace=False),
        with_torchrun("tremor"),
        2,
    ),
    # mp.spawn; each rank shuffles the whole data set by a seed of its own.
    Program(
        _case("road-scenes", ("C05",), outside_trace=False),
        with_python("road_scenes"),
        2,
    ),
    # no_sync spans all micro-batches but the last of an epoch, while each fourth is an update.
    Program(
        _case("entity-tags", ("C04",), acceptable=("C01", "C03"), outside_trace=False),
        with_torchrun("entity_tags"),
        2,
    ),
    # One all_reduce for each of 124 small gradients. Stacks: all_reduce most of the time.
    Program(
        _case("mixer-two", ("E11", "E09"), acceptable=("E06",)),
        with_python("mixer_two"),
        2,
    ),
    # Both ranks save to one and the same file.
    Program(
        _case("bird-calls", ("C14",), outside_trace=False),
        with_torchrun("bird_calls"),
        2,
    ),
    # The columns of one rank's index are swapped, so its labels mean nothing; rank 0 prints its own loss only.
    Program(
        _case("chest-views", ("C11",), outside_trace=False),
        with_torchrun("chest_views"),
        2,
    ),
    # BatchNorm1d over the two rows of a rank.
    Program(
        _case("volumes", ("C10",), acceptable=("C12",), outside_trace=False),
        with_torchrun("volumes"),
        2,
    ),
    # ---- faults: stragglers
    # The export is sorted by length, and each rank takes a half: rank 1 computes four times as long. top shows it.
    Program(
        _case("case-law", ("F03", "F02")),
        with_torchrun("case_law"),
        2,
    ),
    # ---- faults: data
    # Random access to a compressed HDF5 file: each sample unpacks a chunk of 256. Stacks: h5py, in __getitem__.
    Program(
        _case("picks-h5", ("D01",), acceptable=("D07",)),
        with_python("picks_h5"),
    ),
    # A wrong offset in an index makes a worker read outside its map: torch says that a worker was killed by SIGSEGV. That the
    # worker ended says less.
    Program(
        _case("slide-tiles", ("worker_crashed", "exception"), r"segmentation|SIGSEGV|signal 11", (*_ENDED, "H05")),
        with_python("slide_tiles"),
        onset="end",
    ),
    # Tensors from workers are kept, each with a descriptor; the shell allows 256. Torch says so itself.
    Program(
        _case("lipreading", (ANY,), r"open files|ulimit|descriptor|sharing strategy", _ENDED),
        ("bash", "lipreading.sh"),
        onset="end",
    ),
    # ---- faults: time and memory that grow, and what stalls
    # Hooks are registered again and again, and never removed. The printed rate falls; stacks: the hook.
    Program(
        _case("lit-parcels", ("E10",), acceptable=("H06", "E04")),
        with_python("lit_parcels"),
    ),
    # Attention maps of all steps are kept, with their graphs. top shows memory that grows.
    Program(
        _case("vit-tiles", ("H06", "E04"), acceptable=("E10", "H05")),
        with_python("vit_tiles"),
    ),
    # Transformers' Trainer writes long samples without a cache, every 25 steps: half of the time. Stacks: generate.
    Program(
        _case("bedtime-gpt", ("E07",)),
        with_python("bedtime_gpt"),
    ),
    # ---- faults: numbers and learning
    # Keras: a softmax, and a loss that expects logits. The printed loss stays at log(120).
    Program(
        _case("news-topics", ("J03",)),
        with_python("news_topics"),
    ),
    # train() is called once, before the first evaluation.
    Program(
        _case("leaf-spots", ("J07",), outside_trace=False),
        with_python("leaf_spots"),
    ),
    # The data is sorted by subject, and the loader does not shuffle.
    Program(
        _case("gait-lab", ("J04",), outside_trace=False),
        with_python("gait_lab"),
    ),
    # ---- healthy: learning that looks bad
    # A GAN with noise that fades; its losses hover.
    Program(_case("healthy-font-forge"), with_python("font_forge")),
    # DQN: the loss follows the returns, and both rise.
    Program(_case("healthy-dqn-gridlift"), with_python("dqn_gridlift")),
    # BERT from scratch: the loss hardly moves during the warm-up.
    Program(_case("healthy-warm-bert"), with_python("warm_bert")),
    # Larger pictures, fewer of them and other losses from stage to stage.
    Program(_case("healthy-face-sizes"), with_torchrun("face_sizes"), 2),
    # Keras, one seed after the other, each until it stops early.
    Program(_case("healthy-keras-seeds"), with_python("keras_seeds")),
    # ---- healthy: work of unequal kinds
    # A retrieval evaluation halves the learning rate where it helps.
    Program(_case("healthy-recipe-search"), with_python("recipe_search")),
    # A state every 20 s, which a thread writes.
    Program(_case("healthy-night-watch"), with_python("night_watch")),
    # Accumulation with no_sync as it should be.
    Program(_case("healthy-dictation"), with_torchrun("dictation"), 2),
    # Every step of every rank is in the log.
    Program(_case("healthy-talkative"), with_torchrun("talkative"), 2),
    # ---- healthy: ranks that have little to do with each other
    # Hogwild: two processes, one model in shared memory, no collectives.
    Program(_case("healthy-hogwild-words"), with_python("hogwild_words"), 2),
    # Each rank trains its own member of an ensemble; they meet to forecast.
    Program(_case("healthy-two-forecasters"), with_torchrun("two_forecasters"), 2),
    # ---- healthy: jobs that come and go, or wait
    # Four settings on two cards; whoever is done takes the next.
    Program(_case("healthy-ablations"), ("bash", "ablations.sh"), 2),
    # Active learning: annotators need some seconds.
    Program(_case("healthy-label-rounds"), with_python("label_rounds")),
    # A server that learns from the answers to its requests.
    Program(_case("healthy-http-scores"), with_python("http_scores")),
)
