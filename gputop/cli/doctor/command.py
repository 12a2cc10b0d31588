"""Chooses what ``gputop doctor`` does by its options; lists or explains the rules itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from gputop.cli.arguments.doctor import ALL_RULES
from gputop.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from gputop.agent.sampler import Sampler


def doctor(
    options: argparse.Namespace,
    make_sampler: Callable[[argparse.Namespace], Sampler],
    exit_with: Callable[[Sampler, int], int],
) -> int:
    """Run the command. ``exit_with`` closes the sampler's source and returns the exit code.

    Raises:
        UsageError: options exclude each other.
    """
    if options.rules is not None:
        return _rules(options)
    if options.watch and (options.log or options.before or options.replay):
        raise UsageError("--watch watches this machine live.", "Leave out --log, --before and --replay.")
    if options.log:
        from gputop.cli.doctor.logs import explain

        return explain(options)
    if options.replay:
        from gputop.cli.doctor.recorded import replay

        return replay(options)
    from gputop.cli.doctor.machine import before, diagnose, report_changes

    sampler = make_sampler(options)
    if options.before:
        return exit_with(sampler, before(options, sampler))
    if options.watch:
        return exit_with(sampler, report_changes(options, sampler))
    return exit_with(sampler, diagnose(options, sampler))


def _rules(options: argparse.Namespace) -> int:
    """List the rules and the texts of logs, explain one, or list those that mention a word; reads no machine.

    Raises:
        UsageError: there is no such id or word, or an option is given that applies to findings.
    """
    from gputop.doctor.rulebook import listing, mentions, near_ids, page_of

    if options.as_json or options.watch or options.run:
        raise UsageError("--rules prints the rules as text.", "Leave out --json, --watch and --run.")
    if options.rules == ALL_RULES:
        print(listing())
        return EXIT_OK
    page = page_of(options.rules) or mentions(options.rules)
    if page is None:
        near = near_ids(options.rules)
        hint = f"Near it: {', '.join(near)}." if near else ""
        raise UsageError(
            f"No rule has the id {options.rules!r}, and none mentions it.",
            f"{hint} gputop doctor --rules lists them all.".strip(),
        )
    print(page)
    return EXIT_OK
