"""Programs in other hands' styles, open half, by the author of rules, committed before they ran: a guard, no measure."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- threads
    # The thread settings of a server with 64 cores, by environment.
    Program(_case("server-threads", ("D02",), "thread", acceptable=("E06", "F04")), ("bash", "server_threads.sh"), 2),
    # The same in a configuration file, with ranks that spawn starts.
    Program(
        _case("threads-in-config", ("D02",), "thread", acceptable=("E06", "F04")),
        with_python("threads_in_config", "threads_in_config.yaml"),
        2,
    ),
    # ---- checkpoints and disks
    # Each step is written through to the disk, in pieces.
    Program(_case("durable-every-step", ("E07",), r"checkpoint|sav(e|ing)|disk", ("D01",)), with_python("durable_every_step")),
    # Arrays by numpy, and a sync of all disks.
    Program(_case("arrays-to-disk", ("E07",), r"checkpoint|sav(e|ing)|disk", ("D01",)), with_python("arrays_to_disk")),
    # The disk is full, and the script only logs it.
    Program(_case("goes-on-without-saving", (ANY,), "disk is full|no space"), with_python("goes_on_without_saving")),
    # The disk is full at the first checkpoint.
    Program(
        _case("full-at-the-first-save", (ANY,), "disk|space", acceptable=("exception",)),
        with_python("full_at_the_first_save"),
        onset="end",
    ),
    # Two jobs with one port.
    Program(
        _case("second-job-same-port", (ANY,), "port|address", ("exception",)), ("bash", "second_job_same_port.sh"), onset="end"
    ),
    # ---- waits
    Program(
        _case("only-zero-validates", ("B13", "E07", "F05"), acceptable=("F02", "F01", "F03")),
        with_torchrun("only_zero_validates"),
        2,
    ),
    Program(_case("val-longer-than-train", ("E07", "B13")), with_python("val_longer_than_train")),
    # Reads past the page cache, in the loop.
    Program(_case("direct-reads", ("D01", "D07")), with_python("direct_reads")),
    # DDP averages the gradients after each of sixteen small batches.
    Program(_case("syncs-each-micro", ("C04",), acceptable=("E06", "C16")), with_torchrun("syncs_each_micro"), 2),
    # ---- healthy programs that look like trouble
    Program(_case("healthy-wandering-actors"), with_torchrun("wandering_actors"), 2),
    Program(_case("healthy-critic-first"), with_python("critic_first")),
    Program(_case("healthy-grid-on-one"), ("bash", "grid_on_one.sh"), 2),
    Program(_case("healthy-scores-requests"), with_python("scores_requests")),
    Program(_case("healthy-idle-between-cells"), with_python("idle_between_cells")),
    Program(_case("healthy-thin-last-stage"), with_torchrun("thin_last_stage"), 2),
    Program(_case("healthy-search-by-score"), with_python("search_by_score")),
    Program(_case("healthy-cheap-saves"), with_python("cheap_saves")),
    Program(_case("healthy-under-pdb"), ("sh", "under_pdb.sh")),
    Program(_case("healthy-compiles-first"), with_python("compiles_first")),
    # Forty threads that wait for downloads.
    Program(_case("healthy-many-threads-few-used"), with_python("many_threads_few_used")),
)
