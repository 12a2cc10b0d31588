"""The format of ``--help``: at most 80 columns, and examples below the options. Imports only argparse and gputop's errors."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, NoReturn

from gputop.errors import UsageError

COLUMNS_MOST = 80
"""Text that is wrapped twice, here and by the terminal, is hard to read."""


class Parser(argparse.ArgumentParser):
    """argparse with gputop's exit code, one line instead of the usage block, and examples below the options."""

    def __init__(self, *, description: str = "", examples: tuple[tuple[str, str], ...] = (), **settings: Any) -> None:
        """Create a parser. ``examples`` are pairs of a command line and what it does."""
        # argparse wraps a description only if it also wraps the examples.
        text = description if len(description) <= COLUMNS_MOST - 2 else _filled(description)
        super().__init__(description=text, epilog=_epilog(examples), formatter_class=_formatter(COLUMNS_MOST), **settings)

    def format_help(self) -> str:
        """Return the help, at most as wide as the terminal. argparse makes a formatter for each option, long before this."""
        import shutil

        self.formatter_class = _formatter(min(COLUMNS_MOST, shutil.get_terminal_size((COLUMNS_MOST, 24)).columns))
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong with the arguments.

        Raises:
            UsageError: always.
        """
        _, unknown, rest = message.partition("unrecognized arguments: ")
        flags = (word.partition("=")[0] for word in rest.split()) if unknown else ()
        early = next((flag for flag in flags if flag in self._option_string_actions), None)
        if early is not None:
            raise UsageError(f"{early} goes before the command.", f"Write {self.prog} {early} … and then the command.")
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", f"See {self.prog} --help.")


def _formatter(columns: int) -> Any:
    return partial(argparse.RawDescriptionHelpFormatter, width=columns - 2)


def _filled(text: str) -> str:
    import textwrap

    return textwrap.fill(text, COLUMNS_MOST - 2)


def add_command(
    commands: Any, name: str, words: str, *examples: tuple[str, str], more: str = "", **settings: Any
) -> argparse.ArgumentParser:
    """Add a command with at least one example. ``words`` is its line in the list of commands, ``more`` another sentence.

    Raises:
        ValueError: there is no example.
    """
    if not examples:
        raise ValueError(f"Give the command {name!r} an example.")
    sentence = f"{words[:1].upper()}{words[1:]}."
    added: argparse.ArgumentParser = commands.add_parser(
        name, help=words, description=f"{sentence} {more}".strip(), examples=examples, **settings
    )
    return added


def _epilog(examples: tuple[tuple[str, str], ...]) -> str | None:
    if not examples:
        return None
    lines = [f"  {command}\n      {what}" for command, what in examples]
    return "\n".join(["example:" if len(lines) == 1 else "examples:", *lines])
