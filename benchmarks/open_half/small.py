"""Small programs, open half. Split at random with the seed 2611."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # Both ranks send before they receive, so that each waits for the other.
    Program(_case("trades-halos", ("G01", "C08")), with_torchrun("trades_halos"), 2, onset="last line"),
    # A checkpoint every 25 steps takes longer than these.
    Program(_case("keeps-every-epoch", ("E07",)), with_python("keeps_every_epoch")),
    # The loss is the noise of the data from the start.
    Program(_case("healthy-continues-at-the-floor"), with_torchrun("continues_at_the_floor"), 2),
)
