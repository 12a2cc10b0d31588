"""Eighteen faults that people report in forums and issue trackers, and eleven healthy programs.

Their author knew only the titles of the rules. They were set aside until the doctor had been measured on them twice. Each
comment names the cause, and what somebody with ps, top, py-spy and the printed output would see of it. What leaves no such
trace has ``outside_trace=False``.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")
_ENDED = ("exception", "LOG", "G04", "child_failed", "elastic_exit", "gloo_peer", "cpp_terminate")
"""What is said of a run that failed, without its cause."""

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: launching and devices
    # A file with this machine's settings hides the second card, and the launcher counts the visible ones.
    # ps shows one rank, its environment the mask.
    Program(
        _case("sources-an-env-file", ("A03",), acceptable=("A01", "A02", "A16")),
        ("bash", "sources_an_env_file.sh"),
        2,
    ),
    # torchrun starts a script for one GPU twice: nothing joins the two. Each line is printed twice; no collective in stacks.
    Program(
        _case("prints-everything-twice", ("A18", "C03"), acceptable=("C05", "G03")),
        with_torchrun("prints_everything_twice"),
        2,
    ),
    # ---- faults: communication
    # Eleven files for two ranks, as they print: rank 1 is in the barrier after the epoch, and rank 0 in a backward.
    Program(
        _case("shards-by-file", ("C07", "C08"), acceptable=("G01", "G04")),
        with_torchrun("shards_by_file"),
        2,
        onset="last line",
    ),
    # A rank without a positive in its batch leaves out the all_gather. Stacks: one rank there, the other in its backward.
    Program(
        _case("skips-a-collective", ("C08",), acceptable=("G01", "C07")),
        with_torchrun("skips_a_collective"),
        2,
        onset="last line",
    ),
    # The auxiliary output leaves the loss after two epochs: torch's own message about unused parameters.
    Program(
        _case("deep-supervision", ("C09", "unused_params", "unused_idx"), acceptable=_ENDED),
        with_torchrun("deep_supervision"),
        2,
        onset="end",
    ),
    # A DistributedSampler whose set_epoch is never called: each epoch has the order of the first. Nothing shows it.
    Program(
        _case("wheat-heads", ("C06",), acceptable=("J04",), outside_trace=False),
        with_torchrun("wheat_heads"),
        2,
    ),
    # The loader was not prepared by Accelerate, and both ranks have one seed: they print the same losses.
    Program(
        _case("own-loader", ("C05",)),
        with_torchrun("own_loader"),
        2,
    ),
    # ---- faults: stragglers
    # Rank 0 computes error rates of each batch in Python. top and stacks show it; rank 1 waits in its backward.
    Program(
        _case("word-error-rate", ("F05",), acceptable=("F02", "F03")),
        with_torchrun("word_error_rate"),
        2,
    ),
    # ---- faults: data
    # Spectrograms from files in the main process (Lightning, which warns of it). Stacks: numpy in __getitem__.
    Program(
        _case("speech-on-the-fly", ("D01", "pl_workers")),
        with_python("speech_on_the_fly"),
    ),
    # A tokenizer in Python between the steps. Stacks: it, nearly always.
    Program(
        _case("tokenizes-in-the-loop", ("D01",), acceptable=("E02",)),
        with_python("tokenizes_in_the_loop"),
    ),
    # New workers in each epoch, and each reads a large index. ps shows new workers; the time to the first batch is printed.
    Program(
        _case("short-epochs", ("D06",), acceptable=("D01", "E07")),
        with_python("short_epochs"),
    ),
    # Sixteen workers for two cores, of which torch warns. top shows them.
    Program(
        _case("sixteen-workers", ("D02", "too_many_workers"), acceptable=("D01",)),
        with_python("sixteen_workers"),
    ),
    # ---- faults: time and memory that grow, and what stalls
    # Two metrics over all steps so far, computed in each step and never reset. The printed steps per second fall.
    Program(
        _case("auroc-so-far", ("E10",), acceptable=("H06", "E04")),
        with_python("auroc_so_far"),
    ),
    # The validation multiplies 52 000 queries with 52 000 products: 11 GB, more than the limit of the shell.
    Program(
        _case("whole-gallery", ("H05", "exception", "bad_alloc"), r"memory|allocat", _ENDED),
        ("bash", "whole_gallery.sh"),
        onset="end",
    ),
    # Transformers' Trainer saves 220 MB in every third step. The disk's traffic, and stacks in torch.save.
    Program(
        _case("saves-every-few", ("E07",)),
        with_python("saves_every_few"),
    ),
    # Non-maximum suppression in Python: the validation takes longer than the epoch, as is printed.
    Program(
        _case("counts-boxes", ("E07", "B13")),
        with_python("counts_boxes"),
    ),
    # ---- faults: numbers and learning
    # A rate that was scaled for 16 GPUs: the printed loss falls to 0.01 while it warms up, then jumps to 0.6, and stays there.
    Program(
        _case("warms-up-too-far", ("J02", "J01", "nan_loss"), acceptable=("J03",)),
        with_python("warms_up_too_far"),
    ),
    # The last batch of an epoch has one sample, which BatchNorm refuses.
    Program(
        _case("last-of-the-list", ("batch_of_one", "exception"), r"more than 1 value|BatchNorm|one sample", _ENDED),
        with_python("last_of_the_list"),
        onset="end",
    ),
    # ---- healthy: learning that looks bad
    # Four networks against each other; the losses swing, in the style of CycleGAN.
    Program(_case("healthy-night-to-day"), with_python("night_to_day")),
    # Two actors fill a queue, and the learner waits for it at times; its loss changes its sign.
    Program(_case("healthy-actors-and-queue"), with_python("actors_and_queue")),
    # The loss jumps up whenever the problems become harder.
    Program(_case("healthy-longer-sums"), with_python("longer_sums")),
    # Federated rounds: each clinic begins with the average, and so with a higher loss.
    Program(_case("healthy-rounds-of-clinics"), with_python("rounds_of_clinics")),
    # A stage of training thaws one layer more, and wraps the model anew.
    Program(_case("healthy-thaws-layer-by-layer"), with_torchrun("thaws_layer_by_layer"), 2),
    # ---- healthy: work of unequal kinds
    # Forty episodes of training and two hundred of testing, as the protocol says.
    Program(_case("healthy-many-tasks-few-shots"), with_python("many_tasks_few_shots")),
    # One rank is a teacher that only answers; the other trains, and waits for it.
    Program(_case("healthy-teacher-on-one-card"), with_torchrun("teacher_on_one_card"), 2),
    # Rank 0 packs the corpus for 18 s, and the other waits in a barrier.
    Program(_case("healthy-main-process-first"), with_torchrun("main_process_first"), 2),
    # ---- healthy: jobs that come and go, or wait
    # A tiny model that stops early and ends well.
    Program(_case("healthy-patience-of-ten"), with_python("patience_of_ten")),
    # Requests come in bursts.
    Program(_case("healthy-batches-requests"), with_python("batches_requests")),
    # An exported notebook with pauses between its cells.
    Program(_case("healthy-exported-cells"), with_python("exported_cells")),
)
