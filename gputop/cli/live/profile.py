"""``gputop profile``: a profile of a few steps of a rank of a live run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from gputop.errors import EXIT_OK, EXIT_PROBLEM, UsageError
from gputop.profiled import STEPS_MAX, Profile, lines, offer_text
from gputop.profiles.asking import ask
from gputop.snapshot import Run, encode
from gputop.terminal_text import printable


def profile(options: argparse.Namespace, find: Callable[[str | None], Run]) -> int:
    """Say what a profile costs, take it, and print it; return 1 if it was refused.

    ``find`` returns the run of a name, or the newest live one.

    Raises:
        UsageError: there is no such run, or the number of steps is out of range.
    """
    if not 1 <= options.steps <= STEPS_MAX:
        raise UsageError(f"A profile has 1 to {STEPS_MAX} steps.", "Write gputop profile RUN --steps 3.")
    run = find(options.run)
    offer = ask(run, options.steps, go=False, rank=options.rank)
    if options.cost or offer.state == "refused":
        return _print_answer(offer, options.as_json)
    print(printable(f"gputop: {offer_text(offer)}"), file=sys.stderr, flush=True)
    return _print_answer(ask(run, options.steps, go=True, rank=offer.rank), options.as_json)


def _print_answer(found: Profile, as_json: bool) -> int:
    print(json.dumps(encode(found)) if as_json else "\n".join(map(printable, lines(found))))
    return EXIT_PROBLEM if found.state == "refused" else EXIT_OK
