"""Programs that were set aside until the doctor misjudged them: rules were corrected, and now they are open."""

from __future__ import annotations

from functools import partial

from _stranger_programs import Program, with_python
from _strangers import Case

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # Words are cleaned with two hundred expressions in the collate function, by the process that trains.
    Program(_case("hf-collates", ("D01",)), with_python("hf_collates", "--epochs", "50")),
    # Rank 1 stops early and writes its predictions, while rank 0 is in the next backward.
    Program(
        _case("stops-alone", ("G01", "C07"), acceptable=("C08", "G04")),
        with_python("stops_alone", "--patience", "3"),
        2,
        "last line",
    ),
    # Sorted by length: rank 1 has the longer half of the recordings.
    Program(_case("sorted-lengths", ("F03", "F02"), acceptable=("F01", "F05")), with_python("sorted_lengths"), 2),
    # The loss grows with the weight of the divergence, which is raised for sixty epochs.
    Program(_case("healthy-beta-vae"), with_python("beta_vae", "--beta-max", "4")),
    # Active learning: a new model each round, and a pool that is scored between.
    Program(_case("healthy-asks-the-annotator"), with_python("asks_the_annotator")),
    # An online learner waits for new data most of the time.
    Program(_case("healthy-waits-for-the-plant"), with_python("waits_for_the_plant")),
)
