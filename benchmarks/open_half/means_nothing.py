"""Runs whose numbers mean nothing, and healthy ones that look alike. Open half; by the author of rules."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # The scored model is a copy from before the training: val_mse is the same each time.
    Program(_case("scores-a-snapshot", ("J05",)), with_python("scores_a_snapshot")),
    # An average of the weights that is updated in place, and scored.
    Program(_case("healthy-averages-in-place"), with_python("averages_in_place")),
    # Steps of 2e-5 on weights in bfloat16.
    Program(_case("tiny-steps-in-half", ("J03",)), with_python("tiny_steps_in_half")),
    # The names of the checkpoint begin with "module.", which strict=False hides.
    Program(_case("forgets-the-prefix", ("not_loaded",), acceptable=("LOG",)), with_python("forgets_the_prefix")),
    # A head that only the model has, and one that only the checkpoint has.
    Program(_case("healthy-another-head"), with_python("another_head")),
    # The first epoch decodes each page, and later ones find it in memory.
    Program(_case("healthy-remembers-its-pages"), with_python("remembers_its_pages")),
    # The return falls while the agent explores less and less, and rises later.
    Program(_case("healthy-explores-less"), with_python("explores_less")),
)
