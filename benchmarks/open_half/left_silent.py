"""Programs of kinds that were silent, open half, by the author of rules, committed before they ran: a guard, no measure."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- checkpoints beside the loop
    # A thread writes each state, and the loop waits until the one before is on disk.
    Program(_case("keeps-all-states", ("E07",), acceptable=("D01",)), with_python("keeps_all_states")),
    # The same by a process of its own.
    Program(_case("backs-up-in-a-child", ("E07",), acceptable=("D01",)), with_python("backs_up_in_a_child")),
    # ---- a data set in the training process
    # The whole array is read for each tile.
    Program(_case("opens-the-cube", ("D01",)), with_python("opens_the_cube")),
    # ---- between the phases
    # Plain Python sorts all pairs after each step.
    Program(_case("scores-between-steps", ("D01", "E07")), with_python("scores_between_steps")),
    # ---- evaluations
    # Steps print their loss, and the validation of 2250 batches only its result.
    Program(_case("quiet-validation", ("E07", "B13")), with_python("quiet_validation")),
    # ---- launchers that fail before their ranks are seen
    Program(
        _case("script-is-misspelled", (ANY,), r"trian_resnet|no such file", ("exception", "child_failed", "LOG")),
        ("bash", "script_is_misspelled.sh"),
        2,
        onset="end",
    ),
    Program(
        _case("master-port-is-taken", ("G03", "addr_in_use", ANY), "port|address|in use", ("exception", "LOG")),
        ("bash", "master_port_is_taken.sh"),
        2,
        onset="end",
    ),
    # ---- healthy programs that look like trouble
    Program(_case("healthy-streams-shards"), with_python("streams_shards")),
)
