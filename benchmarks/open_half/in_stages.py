"""Trainings in stages, open half, by the author of rules: steps that do more on purpose, and faults beside that."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- healthy: each stage does more
    # One block thaws in each stage, and DDP wraps the model again.
    Program(_case("healthy-thaws-layers"), with_torchrun("thaws_layers"), 2),
    # A new optimizer in each stage, for one layer more.
    Program(_case("healthy-thaws-one-more"), with_python("thaws_one_more")),
    Program(_case("healthy-larger-pictures"), with_torchrun("larger_pictures"), 2),
    # Sequences get longer, and the batch stays.
    Program(_case("healthy-longer-contexts"), with_python("longer_contexts")),
    # The batch grows instead of the rate falling; a new loader for each.
    Program(_case("healthy-grows-its-batch"), with_python("grows_its_batch")),
    # The model is called once more in each stage.
    Program(_case("healthy-farther-rollouts"), with_python("farther_rollouts")),
    # The model itself gets deeper.
    Program(_case("healthy-stacks-layers"), with_torchrun("stacks_layers"), 2),
    # ---- faults beside stages
    # Each stage registers its hooks and removes none.
    Program(_case("hooks-pile-up", ("E10",)), with_python("hooks_pile_up")),
    # Batches grow in the first stages; the bank that each step searches grows for ever.
    Program(_case("mines-all-it-saw", ("E10",)), with_python("mines_all_it_saw")),
    # Each rank draws its own length, up to the stage's.
    Program(_case("own-curricula", ("F03",), acceptable=("E06", "F02", "F04")), with_torchrun("own_curricula"), 2),
    # A smoothed loss keeps the graphs of all steps, while layers thaw.
    Program(_case("smooths-with-its-graph", ("E04", "H06"), acceptable=("E10",)), with_python("smooths_with_its_graph")),
)
